"""Commands that preview or change git and the cluster.

`plan`, `validate` and `wait` only read; `sync` reconciles once; `actions` holds promote, hold,
pause, resume and rollback, which all commit through `cli.context.commit_action`. The edits
themselves are computed in `gitops.actions`, previews in `gitops.preview`. Called by `cli.root`.
"""
