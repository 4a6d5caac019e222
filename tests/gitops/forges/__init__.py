"""Tests of gitkruise.gitops.forges."""
