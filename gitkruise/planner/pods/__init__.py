"""Rules of single pods and their order, shared by CloneSets and SidecarSets.

In-place updates (`inplace`, `inplace_batches`, `inplace_state`), lifecycle hooks, readiness
conditions, deletion and update `order` with `scatter`, and the composition of one patch per pod
(`pod_patch`). `pod_controller` drives pods without a workload of gitkruise: container launch
priority and sidecar termination.

How many pods move is decided by the workload's planner. Callers: `planner.cloneset`,
`planner.sidecarset`, `planner.builtin`, `planner.workloads`.
"""
