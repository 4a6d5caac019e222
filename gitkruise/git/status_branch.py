"""Commits on an orphan, linear branch without a working tree, and notes on commits."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from gitkruise.git.repo import Repository


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    name: str
    email: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One commit of the status branch."""

    commit: str
    time: datetime
    subject: str
    trailers: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """News for the branch: files to set and to delete, and how the commit tells it."""

    files: Mapping[str, bytes]
    delete: Collection[str] = ()
    subject: str
    body: str = ""
    trailers: Sequence[tuple[str, str]] = ()


class StatusBranch:
    def __init__(
        self,
        repository: Repository,
        branch: str,
        *,
        source_branch: str,
        identity: Identity,
        sleep: Callable[[float], None],
        attempts_max: int = 10,
    ) -> None:
        raise NotImplementedError

    def publish(self, update: Update, now: datetime) -> str | None:
        """The new commit's id, or None when the tree would be the same."""
        raise NotImplementedError

    def files(self) -> dict[str, bytes]:
        raise NotImplementedError

    def read(self, path: str) -> bytes | None:
        raise NotImplementedError

    def history(self, limit: int = 100) -> list[Entry]:
        raise NotImplementedError


class Notes:
    def __init__(
        self,
        repository: Repository,
        ref: str,
        *,
        identity: Identity,
        sleep: Callable[[float], None],
        attempts_max: int = 10,
    ) -> None:
        raise NotImplementedError

    def put(self, notes: Mapping[str, str], now: datetime) -> str | None:
        """Set the note of each commit id."""
        raise NotImplementedError

    def read(self, commit: str) -> str | None:
        raise NotImplementedError
