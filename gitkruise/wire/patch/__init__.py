"""Patches: JSON patch, JSON merge patch and strategic merge patch.

Each module applies patches; `json_patch` and `strategic_merge` also create them from two objects.
Server-side apply needs managed fields and is in `world.apply`; patches of one pod
are composed in `planner.pods.pod_patch`.

Callers: `world` when it executes PATCH requests, `admission` and `webhook` for mutations,
`model.planning` to play a planned write on an object in memory.
"""
