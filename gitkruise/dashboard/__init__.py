"""The live dashboard: pages of a cluster for a browser of this machine.

`server` answers requests: pages and assets to everybody who can reach the port, data only with the
session of `access`. `board` keeps the rows of every topic that a browser watches, and `stream`
sends each browser what changed since its last frame, so that a slow one gets fewer frames and
nothing grows. `pod_rows`, `sidecar_rows` and `node_rows` say how pods are drawn. `assets` are the
modules that run in the browser; they have no build step.

Rows come from a `Source`, which the command `gitkruise dashboard` supplies: the same items that
`status`, `get`, `why`, `history`, `plan` and `drift` print. Nothing here changes a cluster or a
repository.
"""
