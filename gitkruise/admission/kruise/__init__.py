"""Rules of OpenKruise's webhooks: CloneSet, SidecarSet, pods, deletion protection.

`cloneset` and `sidecarset` default and validate one object; `sidecarset_conflicts` reads other
objects as well. `pod_webhook` injects sidecars, `launch_priority` adds start barriers, and
`deletion_protection` rejects deletions, `canary` checks an annotation of Deployments.
`lazy_stages` imports them when they are first used.

Not here: the arithmetic of injection (`admission.injection`) and pod templates (`admission.pods`).
Callers: `admission.chain`, the webhook server, and the checks of a build.
"""
