"""Requests to servers of content: repositories of charts, and registries by OCI's distribution API.

`requests` sends GET and HEAD requests by the rules for redirects, credentials, tokens and the
addresses of cluster objects; `distribution` reads the tags, manifests and blobs of a repository of
a registry with it. `artifact` reads a whole artifact: its manifest, its notes and its files.

`cosign` verifies an artifact: `signatures` finds what may sign it, `keys` judges a signature by
public keys, and `keyless` by identities: `certificate_verifier` alone knows the package sigstore,
which the extra `keyless` installs.

What a chart is, and to which version a range leads, is in `charts`; which artifact a source
follows, and how it becomes a commit, is in `source`. Both call this package. gitkruise sends the
requests itself, because no client library keeps to the rules for addresses.
"""
