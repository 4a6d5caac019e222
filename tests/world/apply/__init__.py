"""Tests of gitkruise.world.apply."""
