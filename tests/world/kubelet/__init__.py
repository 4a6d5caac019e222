"""Tests of gitkruise.world.kubelet."""
