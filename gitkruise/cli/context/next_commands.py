"""Recommended commands with the flags of the command that recommends them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Final

from gitkruise.errors import Finding

# A command of ours that may need the cluster's flags, up to the place where they go.
_COMMAND: Final = re.compile(
    r"gitkruise (?:(?:promote|hold|pause|resume|rollback|why|suspend|reconcile)"
    r" [a-z]+/[a-z0-9](?:[\w.-]*\w)?(?: -n [a-z0-9](?:[\w-]*\w)?)?|(?:plan|drift)\b)(?! `)"
)


def carrying(text: str, flags: str) -> str:
    """Return `text` with `flags` in each command that it recommends.

    Without them the command would look at another cluster than the answer, and would not find units
    that are objects of it.
    """
    return _COMMAND.sub(lambda found: f"{found[0]} {flags}", text) if flags else text


def finding_carrying(finding: Finding, flags: str) -> Finding:
    """Return a finding whose notes recommend commands with `flags`."""
    return replace(finding, notes=tuple((n, carrying(text, flags)) for n, text in finding.notes))


def lines_carrying(lines: Iterable[str], flags: str) -> list[str]:
    """Return lines that recommend commands with `flags`."""
    return [carrying(line, flags) for line in lines]


def joined(cluster: str, *, repo: str = ".", config_path: Path | None = None) -> str:
    """Return the flags of a cluster, and those that choose repository and configuration."""
    words = ["--repo", repo] if repo not in {"", "."} else []
    words += ["--config", str(config_path)] if config_path else []
    return " ".join(filter(None, [cluster, shlex.join(words)]))
