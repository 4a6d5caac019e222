"""Confirmation of a push by the user."""

from __future__ import annotations

import click

from gitkruise.cli.console.environment import read_environment
from gitkruise.errors import Finding, UsageProblem


def confirm_push(where: str) -> None:
    """Ask whether to push to `where`, a branch that gitkruise follows.

    Raises UsageProblem GK7045 without a terminal to ask on, click.Abort on the answer no.
    """
    if not read_environment().attended:
        notes = (
            ("unchanged", "nothing was committed or pushed"),
            ("next", "add --yes to push, --pr to push a new branch, --dry-run to preview"),
        )
        message = f"push to {where}: not confirmed, because there is no terminal to ask on"
        raise UsageProblem(Finding(code="GK7045", message=message, notes=notes))
    if not click.confirm(f"Push this to {where}?", err=True):
        raise click.Abort
