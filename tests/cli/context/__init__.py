"""Tests of gitkruise.cli.context."""
