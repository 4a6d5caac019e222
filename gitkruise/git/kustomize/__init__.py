"""Kustomize, run safely on the files of one commit.

`allowed_files` lists what a kustomization may name and refuses everything else, `render` runs the
program on a private copy of these files, as `rendering` does for every renderer.
Parsing the output as manifests, decryption and substitution are in `manifests` and `gitops.build`.

Only `manifests.reader` calls this package.
"""
