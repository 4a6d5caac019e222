"""Tests of gitkruise.model.planning."""
