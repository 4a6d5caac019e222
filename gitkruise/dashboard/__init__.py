"""The live dashboard: pages of a cluster for a browser of this machine, or for the cluster's users.

`server` answers requests: pages and assets to everybody who can reach the port, data to those who
come through a `gate`. The session of `access` lets in the user of this machine, who sees all.
`viewers` are users of the cluster, who see the rows whose `rights` the API server grants them;
`record_rights` narrows the records of commits and drift.
`board` keeps the rows of every topic that a browser watches, and `past_rows` those of pods over
time. `stream` sends each browser what changed since its last frame, so that a slow one gets fewer
frames and nothing grows; frames are encoded once for all browsers that get them. `pod_rows`,
`sidecar_rows` and `node_rows` say how pods are drawn. `assets` are the modules that run in the
browser; they have no build step.

Rows come from a `Source`, which the commands supply: the same items that `status`, `get`, `why`,
`history`, `plan` and `drift` print. Nothing here changes a cluster or a repository.
"""
