"""The container runtime of a node, over CRI v1.

`runtime` offers the calls that the agent needs as values of the model; `calls` carries one call
and turns gRPC's failures into ours. `cri_pb2` holds the messages of the few methods that `calls`
names, and is generated from k8s.io/cri-api v0.34.1 (Apache-2.0) by `make cri-messages`; linters
skip it. Services are not generated.

Nothing here knows the API server. Called by the rest of `agent`.
"""
