"""Reading repositories, manifests and status branches."""
