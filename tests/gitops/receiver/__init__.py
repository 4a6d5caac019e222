"""Tests of gitkruise.gitops.receiver."""
