"""Ring 5: the controller between a git repository and an API server.

A commit travels through the packages in this order: `source` follows the repository, `build` turns
a commit into desired objects, `reconcile` applies and prunes them, `status` records the outcome on
the status branch. `cluster` holds the live objects, who owns them and who may write; `config` loads
gitkruise.yaml; `workers` runs everything that reads repository content; `receiver` takes webhooks
of forges. The supervisor starts and stops all of them; `containment` keeps a crash inside the part
that raised it.

Decisions about single objects and pods are pure functions of ring `planner`; this ring only gathers
their inputs and carries out their results. The commands of `cli` are the callers.
"""
