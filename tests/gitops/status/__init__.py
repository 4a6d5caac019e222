"""Tests of gitkruise.gitops.status."""
