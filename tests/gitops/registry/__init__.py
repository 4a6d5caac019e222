"""Tests of the requests to registries."""
