"""Tests of gitkruise.planner.progress."""
