"""Installation of gitkruise on a cluster, and the bootstrap of a repository.

`installer` applies the manifests of `deploy/` by server-side apply, for `gitkruise install`.
`upgrade_plan` compares an installation with this version, `upgrader` changes it and migrates stored
objects, for `gitkruise upgrade`. `uninstall_plan` reads which of these objects are on a cluster and
which of them stay, `uninstaller` removes the others, both for `gitkruise uninstall`. `bootstrap`
renders the manifests that a cluster follows to keep gitkruise itself up to date, for
`gitkruise bootstrap`.

The objects that users declare are applied by `gitops.reconcile`, not here. Registration of the
admission webhooks is in `gitkruise.webhook`.
"""
