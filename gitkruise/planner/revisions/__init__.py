"""ControllerRevisions: registering the current template, and pruning the history.

`registration` finds, raises or creates a revision under a free name, for every workload;
`revisions` chooses the current and update revision of a CloneSet. Bytes and hashes come from
`wire.kruise`, the decoded value is `model.workloads.revision`.

Callers: `planner.cloneset`, `planner.sidecarset` (with its own `history`).
"""
