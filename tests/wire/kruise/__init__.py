"""Tests of gitkruise.wire.kruise."""
