"""Hostile input with fixed seeds; PROFILE=night draws new seeds."""
