"""Tests of gitkruise.sandbox.handlers."""
