"""Asking a person before something is done that others see."""

from __future__ import annotations

import click

from gitkruise.cli.config import read_environment
from gitkruise.errors import Finding, UsageProblem


def confirm_push(where: str) -> None:
    """Whether to push to `where`, a branch that is followed.

    Raises UsageProblem GK7045 where nobody can answer, click.Abort where the answer is no.
    """
    if not read_environment().attended:
        notes = (
            ("unchanged", "nothing was committed or pushed"),
            ("next", "add --yes to push, --pr for a branch of its own, --dry-run to look only"),
        )
        message = f"this would push to {where}, and nobody is here to ask"
        raise UsageProblem(Finding(code="GK7045", message=message, notes=notes))
    if not click.confirm(f"Push this to {where}?", err=True):
        raise click.Abort
