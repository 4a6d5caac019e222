"""Controllers of kube-controller-manager and kube-scheduler for the model cluster.

Scheduler, garbage collector, namespaces, endpoints and EndpointSlices, volume claims and the expiry
of events. Each has `run(world, now)`, which does what is due and returns the next due instant.

OpenKruise's controllers are not here: they are planners (`gitkruise.planner`), driven by
`world.simulation` or `gitkruise.controller`. Callers: `world.simulation`, the sandbox, previews.
"""
