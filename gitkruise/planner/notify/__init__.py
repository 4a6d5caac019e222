"""Contents of messages outside git: commit statuses, pull request comments, chat messages.

Which news deserve a message, their text and their JSON. Delivery, retries and the outbox are in
`gitops.notify`, the forges' APIs in `gitops.forges`, the values in `model.gitops.notifications`.

Caller: `gitops.notify`.
"""
