"""Ring 0: the wire formats and schema rules of Kubernetes, OpenKruise and Go's encoders.

Pure functions over raw JSON objects: names, paths, quantities, selectors, patches, compiled
schemas, hashes. The package holds no decisions about workloads (`planner`), no validation of
single kinds (`admission`) and no I/O (`kube`, `git`).

`primitives` knows nothing else; `values` parse texts of one field; `schema` compiles OpenAPI and
CRD schemas; on top of them `patch`, `catalog` and `kruise`. Every other ring imports from here.
"""
