"""The commands, by what they touch: `inspect` reads, `change` changes, `cluster` runs servers.

A module declares the flags, help and exit codes of its commands, and formats their results.
Shared flags live in `cli.context`, shared views in `cli.views`. `cli.root` lists all commands and
imports a module when its command runs.
"""
