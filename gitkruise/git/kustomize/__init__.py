"""Kustomize, run safely on the files of one commit.

`allowed_files` lists what a kustomization may name and refuses everything else. `remote_bases`
reads the addresses of bases in other repositories and compares them with the list of the unit;
`gitops.build.base_mirrors` fetches them. `render` runs the program on a private copy of all these
files, as `rendering` does for every renderer. Parsing the output as manifests, decryption and
substitution are in `manifests` and `gitops.build`.

Callers: `manifests.reader`, and actions that edit a kustomization.
"""
