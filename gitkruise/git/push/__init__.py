"""Commits that gitkruise writes, and their way to the remote.

`status_branch` appends to the orphan branch of records and to notes, and repeats a commit that
another push overtook; `user_push` and `worktree` put a user's change on their branch from their
own checkout, with their name and keys. The content of records and edits comes from the caller.

`gitops.status`, `gitops.actions` and the CLI's actions call this package.
"""
