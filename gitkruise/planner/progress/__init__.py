"""Progress of a CloneSet: counts by revision, one state, and pods that cannot start.

Read-only: it compares the spec with the pods for reports and health, never for decisions.
The counterpart for SidecarSets is `planner.sidecarset.progress`, which shares `failing_pods`.

Callers: `planner.health.rollouts` and everything that shows a rollout.
"""
