"""Benchmarks: `python -m tests.bench [NAME ...]` from the repository's root."""
