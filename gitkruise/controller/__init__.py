"""Ring 5: between the planners and an API server."""
