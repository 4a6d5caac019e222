"""Fan-out of a commit to the units of its source: those that it changes come first."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from gitkruise.errors import Crashed, SourceFailed
from gitkruise.gitops.build.builder import Builder, BuiltCommit
from gitkruise.gitops.build.untrusted import BuiltUnit, Workers
from gitkruise.gitops.containment import UNREPORTED, Containment


class Follower(Protocol):
    """Receiver of commits: UnitReconciler."""

    built: BuiltCommit | None
    reader: Builder

    def offer(self, commit: str) -> None: ...

    def accept_unchanged(self, was: BuiltCommit, now: BuiltCommit) -> bool: ...


class FanOut:
    """Offers commits to units. One that changes nothing for a unit costs it no round."""

    def __init__(
        self, units: Sequence[Follower], workers: Workers, containment: Containment = UNREPORTED
    ) -> None:
        self._units, self._workers, self._containment = units, workers, containment
        self._prepared: tuple[str, dict[int, tuple[BuiltCommit, BuiltCommit]]] = ("", {})

    async def prepare(self, commit: str) -> None:
        """Find the units that `commit` changes, before it is offered."""
        asked: list[tuple[int, BuiltCommit, BuiltUnit]] = []
        for number, unit in enumerate(self._units):
            was = unit.built
            if was is not None and was.desired is not None:
                asked.append((number, was, (unit.reader, was.commit.id, was.desired.tree)))
        self._prepared = (commit, {})
        if not asked or await asyncio.to_thread(self._refused, commit):
            return
        try:
            with self._containment.of("the units of a commit"):
                info, found = await self._workers.find_unchanged(
                    [stood for *_, stood in asked], commit
                )
        except (Crashed, SourceFailed):
            return  # the unit that reads it reports the error
        unchanged = {
            number: (was, replace(was, commit=info, overtaken=()))
            for (number, was, _), same in zip(asked, found, strict=True)
            if same
        }
        self._prepared = (commit, unchanged)

    def _refused(self, commit: str) -> bool:
        """Return whether the commit is not trusted; the units of a source agree on that."""
        return any(unit.reader.trusted(commit) is not None for unit in self._units)

    def offer(self, commit: str) -> None:
        """Offer the commit to every unit: immediately to those that it changes."""
        (prepared, unchanged), self._prepared = self._prepared, ("", {})
        if prepared != commit:
            unchanged = {}
        for number, unit in enumerate(self._units):
            if number not in unchanged:
                unit.offer(commit)
        for number, (was, now) in unchanged.items():
            if not self._units[number].accept_unchanged(was, now):
                self._units[number].offer(commit)
