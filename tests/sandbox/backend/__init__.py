"""Tests of gitkruise.sandbox.backend."""
