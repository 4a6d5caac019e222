"""Confirmation of a push, a removal or a replacement by the user."""

from __future__ import annotations

import click

from gitkruise.cli.console.environment import read_environment
from gitkruise.errors import Finding, UsageProblem


def confirm_push(where: str) -> None:
    """Ask whether to push to `where`, a branch that gitkruise follows.

    Raises UsageProblem GK7045 without a terminal to ask on, click.Abort on the answer no.
    """
    notes = (
        ("unchanged", "nothing was committed or pushed"),
        ("next", "add --yes to push, --pr to push a new branch, --dry-run to preview"),
    )
    message = f"push to {where}: not confirmed, because there is no terminal to ask on"
    _confirm(f"Push this to {where}?", Finding(code="GK7045", message=message, notes=notes))


def confirm_removal(cluster: str) -> None:
    """Ask whether to remove gitkruise from `cluster`.

    Raises UsageProblem GK7056 without a terminal to ask on, click.Abort on the answer no.
    """
    notes = (
        ("unchanged", "everything: nothing was removed"),
        ("next", "add --yes to remove it, --dry-run to preview"),
    )
    message = f"uninstall from {cluster}: not confirmed, because there is no terminal to ask on"
    question = f"Remove these objects from cluster {cluster}?"
    _confirm(question, Finding(code="GK7056", message=message, notes=notes))


def confirm_change(command: str, question: str, *, unchanged: str, preview: str = "") -> None:
    """Ask `question` before `command` changes or replaces something.

    Raises UsageProblem GK7071 without a terminal to ask on, click.Abort on the answer no.
    """
    notes = (
        ("unchanged", unchanged),
        ("next", f"add --yes to confirm{preview and f', {preview} to preview'}"),
    )
    message = f"{command}: not confirmed, because there is no terminal to ask on"
    _confirm(question, Finding(code="GK7071", message=message, notes=notes))


def _confirm(question: str, unattended: Finding) -> None:
    if not read_environment().attended:
        raise UsageProblem(unattended)
    if not click.confirm(question, err=True):
        raise click.Abort
