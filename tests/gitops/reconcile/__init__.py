"""Tests of gitkruise.gitops.reconcile."""
