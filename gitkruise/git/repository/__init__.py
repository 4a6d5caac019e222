"""One git repository: a local one read in place, or a bare mirror of a remote.

`repository` is the entry point; `remote` lists, fetches and pushes refs, `mirror` creates and
repairs mirrors, `packing` keeps their files few, `path_history` finds the commits that changed a
folder, `merge` merges two commits without a working tree, `ref_watcher` reports changes of local
refs, `launcher` starts git. Which ref a source follows is decided in `gitops.source`.

`gitops`, its workers and the CLI open repositories through this package.
"""
