"""Previews: the changes and the simulated rollouts of a commit before it is applied; renderers.

`inputs` reads and builds both commits, `changes` compares them, `live_diff` adds the live objects
of a cluster, and `simulate` plays the rollouts on a model cluster with the planners that the
controller runs. `preview` puts these together, `report` orders and redacts the result, and
`render_*` writes it as JSON, Markdown or HTML. The text of the terminal is in `cli.views`.

Nothing here writes to git or to a cluster; a dry run is the only request that is not a read. The
callers are `gitkruise plan`, actions that simulate their own edit first, the workers that plan
pull requests of strangers, and `notify.pull_request_plan`.
"""
