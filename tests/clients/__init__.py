"""Programs of others as clients: to them our cluster must be like a real one."""
