"""Tests of gitkruise.kube.system."""
