"""Tests of gitkruise.gitops.build."""
