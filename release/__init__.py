"""The files of a release, built from one commit: `make release` writes them to dist/.

`source` reads the commit, `distributions` builds wheel and sdist, `manifests` the YAML and the
Helm chart, `program` the installed program, `root_files` and `oci` the container image, `debian`
the package, `pages` man pages and completions, `bill` the lists of components, `provenance` digests
and the statement of origin.
Everything is deterministic: times are those of the commit, archives are sorted. Nothing of this is
in the product, which does not import it; `docs/release.md` describes the files to their users.
"""
