"""What should happen next."""
