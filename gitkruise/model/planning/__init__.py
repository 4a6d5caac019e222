"""The interface between observers, planners and executors of workloads.

A `View` answers reads; a `Workload` names the observer and the planner of a kind; a snapshot is
the input of one round and a `Plan` its output: actions with `preconditions`, held pods, status.
`amounts` resolves partition, maxSurge and maxUnavailable of a spec for every reader; `trace` and
`forecast` describe whole rollouts as data. `execution` performs one action as a generator of
requests.

Plans are computed in `planner` and carried out by `controller.executor` (against an API server)
and `world` (the model cluster).
"""
