"""HTTP as kube-apiserver speaks it: paths, media types, bodies, tokens and error responses.

`routing` turns paths into targets, `negotiation` chooses the form of a response,
`request_decoding` checks and decodes requests, `protobuf_decoder` reads Kubernetes' protobuf,
`authentication` issues and checks tokens, `responses` builds replies and Status errors.

No module here touches the World's objects. Called by `sandbox.handlers` and
`sandbox.discovery`.
"""
