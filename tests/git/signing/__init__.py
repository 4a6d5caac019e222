"""Tests of gitkruise.git.signing."""
