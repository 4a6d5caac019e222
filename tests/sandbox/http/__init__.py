"""Tests of gitkruise.sandbox.http."""
