"""Measurements between the steps of a promotion: queries, requests and Jobs, and their results.

`analyst` takes the measurements of one unit that are due and keeps its run; `providers` asks
Prometheus and HTTP endpoints, and `jobs` runs Jobs with the unit's account. Verdicts are
those of `planner.analysis`; conditions are evaluated by the workers. `memory` keeps the runs of all
units in a Lease, because a user who may push the status branch could forge a record there.

Addresses that a unit may name: `config.metric_addresses`. What follows from a run is decided by
`actions.promotion` (the next step) and `actions.on_failure` (the rollback).

Callers: `actions`, `runtime`, `app`.
"""
