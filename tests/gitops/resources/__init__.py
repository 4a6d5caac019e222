"""Tests of gitkruise.gitops.resources."""
