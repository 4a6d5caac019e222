"""SidecarSet planner."""
