"""Tests of gitkruise.planner.pods."""
