"""The history of a status branch, read back."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from gitkruise.git.plumbing.commits import parse_trailers
from gitkruise.git.push.status_branch import StatusBranch


@dataclass(frozen=True, slots=True, kw_only=True)
class BranchEntry:
    """One commit of the branch."""

    time: datetime | None
    subject: str
    trailers: tuple[tuple[str, str], ...]


def history(branch: StatusBranch, limit: int = 100) -> list[BranchEntry]:
    """Return the newest commits, newest first."""
    entries: list[BranchEntry] = []
    repository, commit = branch._repository, branch._line.tip()
    while commit is not None and len(entries) < limit:
        details = repository.commit(commit)
        trailers = parse_trailers(repository.message(commit))
        entries.append(BranchEntry(time=details.time, subject=details.subject, trailers=trailers))
        commit = details.parents[0] if details.parents else None
    return entries
