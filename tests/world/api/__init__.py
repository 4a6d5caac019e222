"""Tests of gitkruise.world.api."""
