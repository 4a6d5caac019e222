"""Admission webhooks that a cluster has registered, without the network.

`matching` parses webhook configurations and matches a write against their rules; `responses`
reads the reply of a webhook and applies its patch.

Sending the requests is in `gitkruise.sandbox.backend`, the order of calls is in
`gitkruise.world.write`. gitkruise's own webhook server is `gitkruise.webhook`.
"""
