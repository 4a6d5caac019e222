"""Reconciling of one unit: validate commits, apply, prune, correct drift.

`unit_reconciler` is the loop of a unit: each round observes everything and does what is due.
`commit_validation` decides whether a commit can be taken (build, `preflight`, dry run, `approval`).
`applier` sends server-side applies, with `field_adoption` for what another tool has set;
`rejections` turns the API server's errors into findings, and `rejected_objects` holds back their
objects. `pruner` deletes what git no longer contains, after `pre_delete_hooks`.
`drift_correction` paces corrections, `retry` the rounds after failures.

Which objects differ and what is done about them is planned by `planner.sync`; outcomes go to
`gitops.status`. The supervisor starts the loops; the removal of units and `gitkruise sync` use the
parts.
"""
