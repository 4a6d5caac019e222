"""Tests of the model cluster."""
