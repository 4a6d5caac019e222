"""Running components of a process: sources, units, sinks, receivers, and their promotions.

`supervisor` starts, stops and restarts them when the configuration changes; `components` holds the
running ones by their inputs, and `component_errors` those that failed and those that need them.
`followers` move each source from commit to commit, and offer a commit to the units that it
changes. A unit that is restarted with other settings continues from `restore`; a unit that left
the configuration ends in `finalizer`, by the deletion policy that `removals` keeps in the cluster.
`progress` says whether a single pass (`gitkruise sync`) is complete.

The work of one unit is in `gitops.reconcile`, of one source in `gitops.source`; custom resources
become configurations in `gitops.resources`. The caller is `gitkruise.app`.
"""
