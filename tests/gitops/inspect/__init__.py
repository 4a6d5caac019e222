"""Tests of gitkruise.gitops.inspect."""
