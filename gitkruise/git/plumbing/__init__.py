"""Git commands and objects without policy.

`process` runs git with a cleared environment and limits, `safe_config` switches off configuration
that runs programs, `object_db`, `trees`, `tree_walk` and `commits` read and write objects,
`ancestry` answers questions about the history, `refs` checks names and URLs, `errors` explains
git's messages. Mirrors and fetches are in `repository`.

The other packages of `git` call this one; `gitops` uses its values (commits, refs, errors).
"""
