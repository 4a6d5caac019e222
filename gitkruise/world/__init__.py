"""Ring 3: the model cluster, deterministic and without sockets.

A World (`api.cluster`) answers the requests of a kube-apiserver as a library: same requests and
same virtual time give the same objects. `store` keeps objects, `write` and `apply` implement
writes, `controllers` and `kubelet` act as the cluster's own components, and `simulation` runs all
of them with OpenKruise's controllers on virtual time.

Not here: HTTP and SQLite (`gitkruise.sandbox`), admission rules (`gitkruise.admission`) and rollout
decisions (`gitkruise.planner`). Callers: the sandbox, previews, and tests.
"""
