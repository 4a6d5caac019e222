"""Tests of gitkruise.wire.patch."""
