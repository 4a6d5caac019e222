"""Ring 2: admission of one write before it is stored, pure.

`chain` lists the stages that a write passes: defaults, mutation and validation, of kube-apiserver
and of OpenKruise's webhooks. `kruise`, `pods` and `builtin` hold the rules of the kinds, `rules`
the engine and messages that they share, `injection` the sidecars of a new pod, `conversion` the API
versions, and `webhooks` the parts of registered admission webhooks that need no network.

Nothing here sends a request or keeps state: objects of the cluster come in through a ClusterView.
HTTP is in `gitkruise.webhook`, schema checks are in `gitkruise.wire`, and managedFields are in
`gitkruise.world.apply`. Callers: the model cluster (`world.write`), the webhook server, and the
build of a commit (`gitops.build`). Messages equal those of the upstream servers letter for letter.
"""
