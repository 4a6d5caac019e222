"""Tests of gitkruise.world.write."""
