"""Parsers for texts of one field: quantities, int-or-percent, selectors, images, cron, JSONPath,
base64, ranges of versions.

They follow apimachinery, including its spelling when a value is printed. Nothing here knows
the object around the field: percentages are resolved against replicas in
`planner.cloneset.budget`, defaults are in `wire.kruise` and `wire.schema`.

Callers: `model`, `planner` and `admission` when they decode or check fields; `sandbox.tables`.
"""
