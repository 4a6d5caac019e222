"""One planning round of a CloneSet, with the arithmetic of OpenKruise.

`observe` collects a snapshot and `plan` walks it: revisions, `status`, `diffs` (OpenKruise:
`expectationDiffs`), then `scale` (with `create` and `deletes`) or `update`; updates in place
are those of `planner.pod_updates`. `budget` limits what one round moves. Row ids in comments and
tests (NUM, FLOW, ...) point to docs/behaviour.

Rules of a single pod are in `planner.pods`, revisions in `planner.revisions`. Callers:
`planner.workloads`, and `planner.report` for forecasts through `world.simulation`.
"""
