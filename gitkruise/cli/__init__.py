"""The command line: one module per command, started by `root`.

Commands parse flags, connect to a cluster or open a repository, call `gitkruise.app` or a package
of `gitops`, and print the result. Data goes to standard output, progress and errors to standard
error; every command that reads takes `-o json`.

No decision about a rollout or a manifest is made here. Modules are imported when their command
runs, because a short command must start fast; `root` imports no command. `git_hook` is the
program `gitkruise-hook`. Called by the entry points in pyproject.toml and by
`python -m gitkruise`, both by way of `gitkruise.__main__`.
"""
