"""Recommended commands with the flags of the command that recommends them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gitkruise.errors import Finding
from gitkruise.kube.system.lease_terms import SYNC_LEASE

if TYPE_CHECKING:
    from gitkruise.model.gitops.record import UnitRecord

# A command of ours that may need the cluster's flags, up to the place where they go.
_COMMAND: Final = re.compile(
    r"gitkruise (?:(?:promote|hold|pause|resume|rollback|why|suspend|reconcile)"
    r" [a-z]+/[a-z0-9](?:[\w.-]*\w)?(?: -n [a-z0-9](?:[\w-]*\w)?)?"
    r"|(?:plan|drift|get rollouts -A|status(?! --all-clusters))\b"
    r"|get events (?:-A|-n [a-z0-9](?:[\w-]*\w)?)"
    r"|(?>doctor(?: cluster| rbac)?\b)(?! (?:git|config|--context|--kubeconfig|--sandbox)\b))(?! `)"
)

# The one that takes a lease, too: with another it would be a controller of its own.
_SYNC: Final = re.compile(r"gitkruise sync --accept-rewrite [0-9a-f]+\b")


def carrying(text: str, flags: str, *, lease: str = SYNC_LEASE) -> str:
    """Return `text` with `flags` in each command that it recommends, and `lease` where it counts.

    Without them the command would look at another cluster than the answer, and would not find units
    that are objects of it.
    """
    named = shlex.join(["--lease", lease]) if lease != SYNC_LEASE else ""
    text = _adding(flags, _COMMAND, text)
    return _adding(f"{flags} {named}".strip(), _SYNC, text)


def _adding(words: str, command: re.Pattern[str], text: str) -> str:
    return command.sub(lambda found: f"{found[0]} {words}", text) if words else text


def finding_carrying(finding: Finding, flags: str, *, lease: str = SYNC_LEASE) -> Finding:
    """Return a finding whose notes recommend commands with `flags`, and `lease` as `carrying`."""
    notes = tuple((name, carrying(text, flags, lease=lease)) for name, text in finding.notes)
    return replace(finding, notes=notes)


def record_carrying(record: UnitRecord, flags: str, *, lease: str) -> UnitRecord:
    """Return a record whose findings recommend commands with `flags`, and `lease` as `carrying`."""
    findings = (finding_carrying(finding, flags, lease=lease) for finding in record.findings)
    return replace(record, findings=tuple(findings))


def lines_carrying(lines: Iterable[str], flags: str) -> list[str]:
    """Return lines that recommend commands with `flags`."""
    return [carrying(line, flags) for line in lines]


def joined(cluster: str, *, repo: str = ".", config_path: Path | None = None) -> str:
    """Return the flags of a cluster, and those that choose repository and configuration."""
    words = ["--repo", repo] if repo not in {"", "."} else []
    words += ["--config", str(config_path)] if config_path else []
    return " ".join(filter(None, [cluster, shlex.join(words)]))
