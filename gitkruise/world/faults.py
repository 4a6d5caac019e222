"""Faults drawn from a seed: dropped, repeated and late effects, for simulated rollouts."""
