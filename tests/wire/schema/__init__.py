"""Tests of gitkruise.wire.schema."""
