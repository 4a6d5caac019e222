"""WorkloadSpreads: the pods of each subset, what is written on them, and the status.

`grouping` finds the subset of every pod of a target, also of pods that are older than their
WorkloadSpread; `counts` is the status of one subset and its conditions; `controller` plans a round
from these, and makes the pods of the last subset go first.

New pods choose their subset in `model.planning.workload_spread`, which admission calls. Callers:
the list of workloads.
"""
