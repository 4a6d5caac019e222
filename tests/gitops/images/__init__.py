"""Tests of gitkruise.gitops.images."""
