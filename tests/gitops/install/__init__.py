"""Tests of gitkruise.gitops.install."""
