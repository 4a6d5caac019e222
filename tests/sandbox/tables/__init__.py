"""Tests of gitkruise.sandbox.tables."""
