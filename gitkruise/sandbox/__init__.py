"""The embedded cluster: the model cluster of `gitkruise.world` behind HTTPS and SQLite.

`server.serve` starts everything and stops it again; `background` starts a detached process.
`controllers` runs scheduler, kubelets and collectors on real time, `initial_objects` creates nodes
and CRDs.

The semantics of the API (defaults, validation, conflicts, watches) are those of `world` and
`admission`; this package adds transport, durability, authentication and tables. Called by
`gitkruise sandbox`, `gitkruise demo` and the tests.
"""
