"""Tests of gitkruise.git.edit."""
