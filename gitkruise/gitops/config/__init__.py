"""Configuration: gitkruise.yaml and everything that follows from it alone.

`loader` reads the documents and checks them against the published schema (`fast_validate` is its
fast path) and against each other; the modules `*_checks` hold the checks of one field each:
dependencies, forges, promotions, sync windows. `sync_windows` answers when commits are taken,
`dependencies` when the units that a unit depends on are ready. `fingerprints` compares two
configurations part by part, so that only changed parts restart. `cluster_units` reads the Units of
a cluster that follow one repository, for commands.

The types of the documents are in `model.gitops.config`. Callers: the supervisor, custom resources,
receivers, and the commands that read a configuration.
"""
