"""Ring 2: what should happen to one write before it is stored, pure."""
