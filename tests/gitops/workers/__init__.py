"""Tests of gitkruise.gitops.workers."""
