"""Facts read from objects."""
