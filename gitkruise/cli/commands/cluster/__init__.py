"""Commands that run a server or install one: run, webhook, sandbox, demo, install, bootstrap.

`demo` plays the story of `demo_story` and draws it with `demo_screen` and `demo_sidecars`.
`completion` and `version` are here, too, because they touch neither git nor objects. The servers
themselves live in `gitkruise.app`, `gitkruise.sandbox` and `gitkruise.webhook`, manifests in
`gitops.install`. Called by `cli.root`.
"""
