"""Tests of gitkruise.git.manifests."""
