"""Tests of gitkruise.gitops.actions."""
