"""Charts of chart repositories and OCI registries: found, fetched, kept.

`fetcher` answers for units: the version of a range, the archive, or the last one while a repository
is away. `repository` reads an index.yaml, `registry` the tags and blobs of a registry, both by
requests of package `registry`. `versions` chooses one of the versions, `cache` keeps archives in
the state directory.

Fetching needs the network and credentials, rendering must have neither: `git.helm` gets a file of
this machine. gitkruise sends the requests itself, also to registries, rather than by `helm pull`:
so redirects, credentials and the addresses of cluster objects obey one set of rules, versions can
be listed, and a thread or a program waits for no slow server.

Callers: `build.post_build` (units that run), `build.release` and `preview.report` (plans, from the
cache alone), `app` and the workers, which say where the cache is.
"""
