"""The model cluster's node agents: they do on every node what OpenKruise's daemon does there.

`agent` is the component. It carries out requests to recreate containers (`recreate`), reports what
containers were started with, and restarts those whose environment changed (`container_meta`).
Decisions are those of `planner.node`, the same that an agent on a real node takes; containers are
stopped in the simulated kubelet, which starts them again.

Controllers of the same kinds are workloads (`planner.workloads`). Callers: the sandbox and
`world.simulation`.
"""
