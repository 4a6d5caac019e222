"""Ring 5: the workload controllers, between the planners and an API server.

`controllers` builds a set of them over one cluster; `runner` drives one workload: a `workqueue` of
keys, a snapshot for the planner, and its plan for the `executor`, with back-off after failures
and a `breaker` against writes that something reverts. `events` records Kubernetes Events, `repair`
recreates pods that missed their sidecars. The decisions themselves are in `planner`; git is unknown
here.

Only `app` calls this package, for `gitkruise run` and for the embedded cluster.
"""
