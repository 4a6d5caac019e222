"""Tests of gitkruise.world.simulation."""
