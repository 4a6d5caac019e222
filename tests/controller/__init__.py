"""Tests of gitkruise.controller."""
