"""The kinds that a cluster serves, with names, verbs, subresources, printer columns and schemas.

A `Catalog` is built from recorded discovery documents (`recorded`) or grows with applied
CustomResourceDefinitions (`crds`). Core types in places that Kruise's CRDs leave open are added
by `kruise_schemas`. Discovery of a real cluster is in `kube.client.discovery`; the compiled
schemas are in `wire.schema`.

Callers: `gitops` to check manifests, `world` and `sandbox` to serve kinds, `kube` for paths.
"""
