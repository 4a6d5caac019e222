"""Values of the GitOps side: configuration, documents, changes, records, reports.

`config` decodes gitkruise.yaml and the custom resources; `document` is an object in git with its
positions; `change` holds desired and live objects and the plan of a sync round; `record` is the
document of a unit on the status branch; `gate` is the partition or canary that a manifest has;
`report` is a plan as it is shown; `notifications` are statuses, comments and messages for forges
and chats.

What to apply or prune is decided in `planner.sync`. Callers: `gitops`, `git`, `cli`, `planner`.
"""
