"""Read-only commands: status, get, history, why, trace, drift, doctor, explain.

They read a cluster, the status branch of a repository, or the documentation in the package. The
answers are computed in `gitops.inspect`, and drawn here or in `cli.views`. Nothing here writes to
git or to a cluster. Called by `cli.root`.
"""
