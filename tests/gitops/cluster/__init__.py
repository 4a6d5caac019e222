"""Tests of gitkruise.gitops.cluster."""
