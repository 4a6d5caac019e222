"""Tests of gitkruise.cli.console."""
