"""Ring 4: access to git repositories and the manifests in them.

`plumbing` runs git and reads its objects, `repository` has mirrors and remotes, `parsing` turns
files into objects with positions, `rendering` runs renderers without harm, `kustomize`, `helm` and
`manifests` produce the documents of a path, `push` writes the status branch and users' commits,
`signing` checks and makes signatures, `edit` changes fields byte-exactly. Which commit to follow,
and what to do with its objects, is decided in `gitops`.

Callers are `gitops` and `cli`; `sandbox` only parses request bodies with it. Calls block: callers
run them in threads or worker processes.
"""
