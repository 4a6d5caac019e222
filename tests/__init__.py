"""Tests of gitkruise; the folders mirror the package."""
