"""Tests of the GitOps loop."""
