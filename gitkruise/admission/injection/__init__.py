"""Sidecar injection: what SidecarSets make of a pod that is being created."""
