"""Handlers of requests: `app` routes a request, `resources` serves objects and `watch` watches.

A handler decodes with `sandbox.http`, hands one request to `backend.cluster.Cluster` and shapes
the reply, as JSON or as a table. `inprocess` is the transport of callers in the same process, which
skips HTTP. Rules of the API are in `world`. Called by `sandbox.server`.
"""
