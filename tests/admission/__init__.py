"""What happens to one write before it is stored."""
