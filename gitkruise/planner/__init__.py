"""Ring 2: decisions, pure. A snapshot goes in, a plan or a report comes out.

No function here reads a clock, a cluster or a repository: the same input gives the same plan, in
the controllers, the sandbox and forecasts alike. `workloads` lists the kinds with their
observers and planners, for `app`, `controller` and `world`.

Per workload: `cloneset`, `statefulset`, `sidecarset`, `builtin`; shared by them: `pods`,
`pod_updates`, `revisions`, `progress`, `health`. For git: `sync` (apply and prune), `report` (a
plan in words), `notify` (statuses and comments). Plans are carried out by `controller` and
`gitops.reconcile`.
"""
