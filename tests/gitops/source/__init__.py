"""Tests of gitkruise.gitops.source."""
