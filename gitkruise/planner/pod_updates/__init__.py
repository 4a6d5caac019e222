"""Updates in place, from the lifecycle hook to the last batch, as rounds of a workload drive them.

`rules` is what a round knows of its workload, `start` begins an update in place, `refresh` finishes
what earlier rounds began, `predownload` has new images pulled ahead. Which pods are updated, and
how many, is decided by the callers; what changes inside a pod by `planner.pods`.

Callers: `planner.cloneset`, `planner.statefulset`.
"""
