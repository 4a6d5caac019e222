"""One planning round of a SidecarSet: upgrade of the sidecars of running pods.

`observe` collects a snapshot and `plan` walks it: `history`, status, `update` with candidates by
`pod_view`, hot upgrades, and the writes of one pod in `pod_upgrade`. `progress` reports counts
and one state.

Injection into new pods is in `admission.injection`; pod rules shared with CloneSets are in
`planner.pods`. Callers: `planner.workloads`, `planner.health`, `world.simulation`.
"""
