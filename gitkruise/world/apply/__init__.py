"""Server-side apply and metadata.managedFields.

`server_side_apply` merges an applied configuration and migrates objects of client-side apply,
`managed_fields` tracks owners on every write, `typed` walks objects by schema, and `fieldset` holds
sets of field paths.

Source: structured-merge-diff and the API server's field manager. Callers: `world.api` for apply
requests, `world.write` for all others. gitkruise's own use of apply is in `gitkruise.gitops`.
"""
