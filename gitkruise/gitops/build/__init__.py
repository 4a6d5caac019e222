"""Build: everything between a commit and the validated desired objects of a unit.

`builder` reads and renders the unit's path; `post_build` decrypts and substitutes variables (Flux:
`postBuild`); `release` is what a chart is rendered as; `base_mirrors` fetches the remote bases of
kustomizations; `desired` turns documents into objects with keys, order and digests; `validate` runs
all checks on them. The other modules are single checks: field types, misspelt fields, names and
metadata, apply order, InPlaceOnly, SidecarSets.
`redacted_findings` keeps Secret values out of messages. `kruise_defaulting` converts and defaults
an object for a cluster without OpenKruise's webhooks. `untrusted` is the interface of the workers.

Reading git objects and parsing files is `git.manifests`; applying is `gitops.reconcile`. Callers:
the workers, the unit reconciler, previews, and the commands `validate` and `plan`.
"""
