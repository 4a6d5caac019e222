"""Tests of gitkruise.git.push."""
