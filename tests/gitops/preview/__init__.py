"""Tests of gitkruise.gitops.preview."""
