"""Health of live objects, in the words of kstatus.

`builtin` has the rules of Kubernetes' own kinds, `rollouts` those of CloneSets and SidecarSets,
`kruise` those of OpenKruise's other kinds, `node_requests` those of requests to node agents,
`stated_conditions` those of kinds that state others than Ready, `kinds` the kinds that roll out
over pods. The CEL health checks of a unit are in `gitops.status.health_checks`; progress counts
come from `planner.progress`.

Callers: `gitops.status`, `gitops.inspect`, `gitops.preview`, `gitops.actions` and forecasts.
"""
