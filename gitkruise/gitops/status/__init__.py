"""Status: observed health of a unit, its record, and the status branch.

`observer` derives the state of live objects and rollouts, `health_checks` adds the unit's `health`
block and hooks. `unit_status` folds everything that happens to a unit into its record and passes
each new record to its sinks: `publisher`, which writes the status branch and notes,
`rollout_annotation` on live objects, and notifiers. `serializer` and `parser` convert records to
files and back; `reader` reads a status branch offline; `sinks` opens the branches that Sinks name.

Health rules of kinds are in `planner.health`, pushing is in `git.push`, messages to forges and
chats are in `gitops.notify`. Callers: the unit reconciler, the supervisor, and commands that show
records.
"""
