"""Rollouts as a real OpenKruise played them, played again."""
