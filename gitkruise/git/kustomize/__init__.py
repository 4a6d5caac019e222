"""Kustomize, run safely on the files of one commit.

`allowed_files` lists what a kustomization may name and refuses everything else, `render` runs the
program on a private copy of these files, `network_isolation` takes the network away from it.
Parsing the output as manifests, decryption and substitution are in `manifests` and `gitops.build`.

Only `manifests.reader` calls this package.
"""
