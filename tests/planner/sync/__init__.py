"""Tests of sync planning."""
