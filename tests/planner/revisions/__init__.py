"""Tests of gitkruise.planner.revisions."""
