"""The shared World of a sandbox, and the way of its changes to disk, watches and webhooks.

`cluster` passes requests to the World and releases replies when their changes are durable.
`group_commit` and `sqlite` write them, `state_dir` owns the directory, keys and token,
`backup` copies, restores and empties the store of a directory, also without a World.
`watch_fanout` writes events to all watches, `webhook_client` calls registered webhooks.

Nothing here knows HTTP requests of clients. Called by `sandbox.handlers`, `sandbox.controllers`,
`sandbox.server` and the commands of `gitkruise sandbox`.
"""
