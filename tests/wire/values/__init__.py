"""Tests of gitkruise.wire.values."""
