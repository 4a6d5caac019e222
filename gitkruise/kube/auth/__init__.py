"""Connection settings of a cluster: kubeconfig, in-cluster files, credentials.

A Connection is the address, the TLS context and the Authorization header; credentials refresh
themselves. Kubeconfig files merge as in kubectl, and exec plug-ins run here.
Requests are not sent here: `client.http` takes a Connection and does that.

`cli.context` and the demo load connections, `client` uses them.
"""
