"""Sidecar injection into a pod that is being created.

`inject` is the entry: a pod, SidecarSets and revisions in, a changed pod out. `matching` selects
the sets and revisions, `containers` builds the containers, `transfers` copies mounts, devices and
variables, `resources_policy` and `expression` compute resources.

Pure: reading SidecarSets and revisions from a cluster is in `admission.kruise.pod_webhook`, the
only caller. Later updates of running sidecars are in `planner.sidecarset`.
"""
