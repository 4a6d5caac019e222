"""Ring 4: talking to a repository."""
