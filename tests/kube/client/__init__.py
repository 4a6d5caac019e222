"""Tests of gitkruise.kube.client."""
