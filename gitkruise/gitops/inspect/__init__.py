"""Read-only questions of commands: status, drift, why, trace, explain, wait, doctor.

`cluster_view` reads and watches the managed objects of a cluster with their pods, revisions and
plans; `explain`, `trace` and `disruption_budgets` derive answers from it. `drift` compares live
objects with git, `wait` answers from records whether a commit is live, and `doctor_cluster` and
`doctor_git` run the checks of `gitkruise doctor`.

Nothing here writes, and nothing is printed: the text is in `cli.views` and in the commands of
`cli.commands.inspect`, which are the callers.
"""
