"""Ring 2: what should happen next, pure."""
