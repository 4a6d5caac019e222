"""Tests of the benchmarks' own judgement."""
