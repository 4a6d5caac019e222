"""OpenKruise's bytes: template defaults, the Go struct round trip, and the hashes over them.

ControllerRevisions and hash annotations are compared byte for byte, so that this package
imitates what OpenKruise's webhook and Go's encoding/json leave of an object.

The meaning of the fields is in `model.workloads`; which revision wins is decided in
`planner.revisions`. Callers: `model.workloads`, `planner`, and `admission` for the same defaults.
"""
