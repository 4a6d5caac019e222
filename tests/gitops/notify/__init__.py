"""Tests of gitkruise.gitops.notify."""
