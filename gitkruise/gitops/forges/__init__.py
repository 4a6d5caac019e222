"""GitHub, GitLab, Gitea and Forgejo: API clients, and the payloads of their webhooks.

`provider` is the interface: pull requests, comments, commit statuses, deployments. `github` (with
Gitea and Forgejo, whose APIs are nearly the same) and `gitlab` implement it over the JSON client
of `http`; `github_app` exchanges the key of a GitHub App for tokens; `factory` opens the client
that a Sink describes, with credentials that follow its Secret. `webhook_payloads` authenticates
and reads deliveries to a Receiver.

Nothing here decides when or what to publish: `gitops.notify` does, and `gitops.actions` opens and
merges pull requests. The receiver's HTTP server is in `gitops.receiver`.
"""
