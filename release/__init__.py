"""The files of a release, built from one commit: `make release` writes them to dist/.

`source` reads the commit, `distributions` builds wheel and sdist, `manifests` the YAML and the
Helm chart, `image` and `root_files` the container image, `pages` man pages and completions,
`packages` the Debian package, `bill` the SBOM, `provenance` digests and the statement about them.
Everything is deterministic: times are those of the commit, archives are sorted. Nothing of this is
in the product, which imports none of it; `docs/release.md` describes the files to their users.
"""
