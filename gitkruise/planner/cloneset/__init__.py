"""What a CloneSet should do next: count, then scale or update."""
