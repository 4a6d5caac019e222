"""Ring 4: access to an API server, and small HTTPS servers of ours.

`client` sends requests and holds the Transport interface, `auth` finds the cluster and the
credentials, `cache` lists, watches and elects a leader, `serve` listens, `system` has the clock,
files and CEL. Nothing here knows what a rollout or a unit is: decisions are in `planner`, writes of
plans in `controller`, and the rules of Kubernetes objects in `wire`.

Callers are `controller`, `gitops`, `sandbox`, `webhook`, `cli` and `app`. Only modules here open
connections to clusters and read the clock.
"""
