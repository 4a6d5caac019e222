"""Tests of verdicts about measurements."""
