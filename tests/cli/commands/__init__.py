"""Tests of gitkruise.cli.commands."""
