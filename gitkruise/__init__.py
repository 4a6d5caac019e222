"""Turns git pushes into OpenKruise-style rollouts and writes the outcome back into git."""

__version__ = "0.1.0"
