"""Tests of admission: defaults, mutation and validation of one write."""
