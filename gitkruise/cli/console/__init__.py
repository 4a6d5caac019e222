"""The terminal: environment, colours, tables, windows, keys, and the form of commands and findings.

`environment` is the only module that reads variables and terminals. `style` encodes every line
that is printed, so that text from outside cannot move the cursor. `command` formats help and exit
codes, `findings` formats problems, `signals` serves a sandbox until a signal stops it.

Nothing here reads a cluster or a repository. Used by all other packages of `cli`.
"""
