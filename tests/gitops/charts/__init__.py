"""Tests of charts that are fetched."""
