"""One planning round of an Advanced StatefulSet, and what it shares with Kubernetes' StatefulSet.

`facts` reads a spec, `observe` collects a snapshot, `plan` walks it: revisions, `scale` (with
`identity` and `claims`), `update`, `status`. `progress` judges a rollout for reports. Names of
pods, pods and claims come from `identity` for both kinds of StatefulSet; updates in place and hooks
are in `planner.pod_updates`. Rules have the ids ASTS in docs/behaviour/advanced-statefulset.md.

Callers: `planner.workloads`, `planner.builtin`, `planner.health`, `planner.report`.
"""
