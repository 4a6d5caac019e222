"""Tests of gitkruise.git.helm."""
