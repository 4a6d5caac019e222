"""Tests of gitkruise.wire.primitives."""
