"""Tests of gitkruise.planner.health."""
