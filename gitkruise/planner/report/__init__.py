"""A plan in words: changed fields, blast radius, forecast, warnings, with secrets redacted.

`report` folds changes into a `model.gitops.report.PlanReport`; `forecast` and
`forecast_sidecarset` describe simulated rollouts, `blast_radius` counts pods, `redaction`
replaces secret values. Terminal, Markdown and JSON writers are in `cli.views` and `gitops`; the
simulation is in `world.simulation`.

Callers: `gitops.preview`, `gitops.status`, `gitops.inspect`, `cli`.
"""
