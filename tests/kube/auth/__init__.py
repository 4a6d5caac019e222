"""Tests of gitkruise.kube.auth."""
