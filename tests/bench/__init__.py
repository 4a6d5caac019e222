"""Numbers the project promises. Run by hand or CI; nothing here asserts a wall clock."""
