"""Views: model values as lines of text and as JSON.

`status`, `rollout`, `resources` and `plan` draw the commands of those names; `progress` draws the
lines of a running controller; `watch` and `watch_screen` redraw on change. A view gets values and
a style, and returns lines: it asks neither a cluster nor git. Used by `cli.commands` and
`cli.context`.
"""
