"""Tests of gitkruise.model.workloads."""
