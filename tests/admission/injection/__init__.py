"""Tests of sidecar injection."""
