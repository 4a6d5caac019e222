"""Tests of gitkruise.git.plumbing."""
