"""Tests of gitkruise.wire.catalog."""
