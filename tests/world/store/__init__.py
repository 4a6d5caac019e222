"""Tests of gitkruise.world.store."""
