"""Tests of gitkruise.kube.serve."""
