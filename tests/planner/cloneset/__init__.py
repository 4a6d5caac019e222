"""One planning round of a CloneSet."""
