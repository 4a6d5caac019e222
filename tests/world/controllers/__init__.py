"""Tests of gitkruise.world.controllers."""
