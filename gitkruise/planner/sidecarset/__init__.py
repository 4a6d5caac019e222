"""Planner of SidecarSets: which pods run which sidecars, and what changes next."""
