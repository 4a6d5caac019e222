"""Tests of gitkruise.planner.node."""
