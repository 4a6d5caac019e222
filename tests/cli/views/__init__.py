"""Tests of gitkruise.cli.views."""
