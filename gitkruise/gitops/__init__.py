"""Ring 5: between a repository and an API server."""
