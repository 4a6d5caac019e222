"""Sources: from a ref of a repository to a verified commit.

`repositories` opens mirrors with the Secrets of their sources, shared between sources of one URL;
`secret_ref` re-reads Secrets that rotate. `poller` decides when a repository is polled,
`ref_resolver` to which commit each source's ref points, `artifacts` imports those of registries as
commits, `verification` judges whether a signature is trusted, and `follower` hands each new commit
to the units once. `accepted_commits` and `ancestry` know the live commits, so that
rewritten history is refused.

Fetching, objects and signatures themselves are in ring `git`. Callers: the supervisor, the unit
reconciler and the receivers.
"""
