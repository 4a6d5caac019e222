"""Signatures of commits and tags.

`verify` checks SSH and OpenPGP signatures by git's own programs under the keys of a Secret and no
others; `sign` signs the commits that gitkruise makes. Which commits need a signature is decided by
the source's configuration.

`gitops.source` verifies with this package, `gitops.status` signs with it.
"""
