"""PodUnavailableBudgets: their status and what they let pass."""
