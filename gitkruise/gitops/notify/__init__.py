"""Notifications of forges and chats: commit statuses, deployments, comments, checks, messages.

Records of units come in through `offer`, which never waits. Writers (`commit_statuses`,
`pull_requests`, `notifier`) derive items from them and store these, one per key, in the outbox, a
SQLite file in the state directory. For each channel a `sender` takes items out and
repeats them until they arrive, so a silent receiver delays nothing else and a restart loses
nothing. `pull_request_plan` plans open pull requests; `merge_commits` finds the merge of a commit.

What an item says is decided in `planner.notify`, and the APIs of forges are in `gitops.forges`.
Status branches are not notifications: see `gitops.status`. The caller is `runtime.supervisor`,
which creates the notifications of each Sink with `factory`.
"""
