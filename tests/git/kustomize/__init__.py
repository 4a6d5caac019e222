"""Tests of gitkruise.git.kustomize."""
