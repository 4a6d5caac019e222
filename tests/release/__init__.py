"""Tests of the release's files, below release/."""
