"""Simulation on virtual time: controllers, plans and forecasts.

`simulation` runs a World, its components and OpenKruise's controllers until nothing is left to do;
`executor` carries out their plans. `forecast` plays a set of writes on a copy of a cluster and
describes each rollout.

Rollout logic is not here: planners decide (`gitkruise.planner`). Callers: previews
(`gitkruise.gitops.preview`) and tests.
"""
