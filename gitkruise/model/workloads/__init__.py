"""Typed facts of workloads and pods, decoded once per observed object.

`cloneset` and `sidecarset` give v1alpha1 and v1beta1 one meaning; `pod` and `pod_groups` are
what planners read of pods; `revision` keeps the bytes of a ControllerRevision. Annotations that
OpenKruise shares between its controllers are parsed and written here (`sidecarset_annotations`,
`launch_priority`), and spelt in `labels`.

Which pods move is decided in `planner`; invalid specs are rejected in `admission`.
"""
