"""Tests of gitkruise.kube.cache."""
