"""Tests of gitkruise.model.gitops."""
