"""Parts that several commands share: flags of the cluster, repositories, resource names, filters.

`cluster` opens the connection that the flags choose, `local_repository` finds the repository with
the status branch. `commit_action` runs promote, hold, pause, resume and rollback from the edit to
the push; `confirm` and `pull_request` serve it. `wait` polls the status branch, `autofix` renames
misspelt fields.

Output that belongs to one command is in that command. Used by `cli.commands`.
"""
