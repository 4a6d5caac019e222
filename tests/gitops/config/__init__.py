"""Tests of gitkruise.gitops.config."""
