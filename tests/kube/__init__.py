"""Tests of gitkruise.kube."""
