"""GitSource, Unit, Sink and Receiver as custom resources.

`informers` watch them, `declared` turns them into a configuration and rejects settings that only a
file may have, and `controller` hands the configuration to `runtime.supervisor`, sets finalizers and
serves reconcile requests. `status_writer` writes status, with the conditions of `conditions`,
which kubectl, Flux and kstatus read.

The same kinds in gitkruise.yaml are read by `gitops.config`; both use the structs of
`model.gitops.config`. The caller is `gitkruise.app`.
"""
