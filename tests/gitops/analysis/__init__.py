"""Tests of measurements between the steps of a promotion."""
