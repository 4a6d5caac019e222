"""Tests of gitkruise.gitops.runtime."""
