"""Receivers: webhooks of forges that trigger a poll before the interval is over.

`server` listens, checks the signature of each delivery with the Receiver's Secret, and answers with
a status alone. `dispatch` decides which sources a push concerns and debounces the polls that it
triggers. A webhook is only a hint: commits are always read from the repository.

Payloads and signatures of each forge are in `gitops.forges.webhook_payloads`, the HTTP server in
`kube.serve`. The supervisor opens the receivers.
"""
