"""Helm charts of a git repository or of an archive, rendered by the program helm.

`release` is everything besides the chart that decides the outcome: names, values, versions.
`chart` collects the files of a chart and refuses what reaches outside the repository, `archive`
unpacks one that was fetched, `index` reads the index of a repository of charts, `render` runs
`helm template` on a private copy of them, `output` finds the template of each object and turns
hooks of Helm into those of gitkruise, `messages` turns errors of helm into findings.

Only `manifests.reader` calls this package. Reading values from a cluster is
`gitops.build.post_build`.
"""
