"""Ring 1: frozen values. Facts of live objects go in, plans and records come out.

Values and their decoding only: no decisions (`planner`), no validation (`admission`), no I/O. The
only ring of the core that decodes with msgspec.

`workloads` are typed facts of CloneSets, SidecarSets, pods and revisions; `planning` is the
interface between observers, planners and executors; `gitops` describes configuration,
documents in git, changes, records and reports.
"""
