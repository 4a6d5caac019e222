"""The API server of the model cluster: verbs, lists, watches, subresources.

`cluster.World.handle` is the entry; `routes` selects the handler of a request. `reads`, `writes`,
`delete` and `watch` implement the verbs, `scale` and `binding_eviction` subresources, and
`fast_pod_lifecycle` a shortcut for forecasts.

Not here: what happens to an object between decoding and storage (`world.write`), storage itself
(`world.store`), and HTTP (`gitkruise.sandbox.http`). Callers: the sandbox, the controllers and the
kubelet of the model cluster, `world.simulation`, and previews.
"""
