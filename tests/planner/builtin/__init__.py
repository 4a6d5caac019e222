"""Tests of gitkruise.planner.builtin."""
