"""State of the model cluster, and what every request of it needs.

`store` keeps objects, indexes and the journal; `commit` stores and removes with side effects;
`request_context` is one request. `strategies`, `names`, `crds` and `api_errors` copy rules of
kube-apiserver. `admission_cache` and `memo` save repeated work.

In memory only: the sandbox persists to SQLite. Callers: all packages of `world`, and the storage
of the sandbox.
"""
