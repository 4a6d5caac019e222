"""Live state of one cluster: caches, ownership, and the right to write.

`live_cache` follows the objects of all units, their pods and revisions with informers, and knows
which workloads are sized by autoscalers; `inventory` finds objects by unit label. `ownership` says
which unit wants which object. `write_authority` decides whether this process may write (lease
held, git read since); `impersonation` gives a unit the rights of its service account; `engine`
decides between our controllers and OpenKruise's; `delete_guards` protects Namespaces and CRDs that
hold objects of others.

HTTP, informers and leases themselves are in `kube`; what is changed is decided in
`gitops.reconcile`, which with `gitops.status` and the supervisor calls this package.
"""
