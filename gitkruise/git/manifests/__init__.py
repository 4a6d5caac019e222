"""Desired documents of a path at a commit.

`reader` finds the files (less those that `ignore` and `wildmatch` leave out), parses or renders
them; `decryption` opens SOPS files with `sops` and `gpg_home`, `substitute` replaces variables.
The result still says which line each document comes from. Validation, defaults and ownership
labels are in `gitops.build`.

`gitops.build`, previews and `gitkruise validate` call this package.
"""
