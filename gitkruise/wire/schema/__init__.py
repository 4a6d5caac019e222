"""Compiled schemas and the rules that an API server derives from them.

`nodes` compiles OpenAPI v3 and CRD schemas on demand; `structural` drops unknown fields and
applies defaults, `empty_words` drops texts that count as none, `validation` reports broken rules
in the API server's words, `go_decoding` the values that Go cannot decode. `patterns` is the only
importer of RE2.

Rules that a schema cannot express are in `admission`. Callers: `wire.catalog` and `wire.patch`,
`gitops.build` to check manifests, `world.write` and `world.apply` for every write.
"""
