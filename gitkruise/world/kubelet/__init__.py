"""The simulated kubelet: containers, statuses and deletion of pods that have a node.

`kubelet` is the component; for each pod, `pod_actions` decides, `stages` plays container lifecycles
with timers, `runtime` is the resulting state, and `status` and `container_status` report it.
`probes` says which probes and hooks fail, `recovery` continues after a restart or a reboot,
`profiles` sets delays and failing images. `state_sharing` makes forecasts of many pods cheap.

Assigning pods to nodes is the scheduler's (`world.controllers`). Callers: the sandbox and
`world.simulation`.
"""
