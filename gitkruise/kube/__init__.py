"""Ring 4: talking to an API server."""
