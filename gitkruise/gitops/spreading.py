"""A source's new commit, spread over the units that follow it: those it concerns come first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from gitkruise.errors import SourceFailed
from gitkruise.gitops.intake import Intake, Reader


class Follower(Protocol):
    """What a commit is offered to: gitops.sync.UnitSync."""

    intake: Intake | None
    reader: Reader

    def offer(self, commit: str) -> None: ...

    def stays(self, was: Intake, now: Intake) -> bool: ...


class Spread:
    """Offers commits to units. One that changes nothing for a unit costs it no round."""

    def __init__(self, units: Sequence[Follower]) -> None:
        self._units = units
        self._sifted: tuple[str, dict[int, tuple[Intake, Intake]]] = ("", {})

    def sift(self, commit: str) -> None:
        """Find out whom `commit` concerns, before it is offered. Blocking."""
        unmoved: dict[int, tuple[Intake, Intake]] = {}
        for number, unit in enumerate(self._units):
            was = unit.intake
            if was is None or not unit.reader.unmoved(commit, was):
                continue
            try:
                info = unit.reader.repository.commit(commit)
            except SourceFailed:
                break  # whoever reads it tells
            unmoved[number] = (was, replace(was, commit=info, overtaken=()))
        self._sifted = (commit, unmoved)

    def offer(self, commit: str) -> None:
        """Let every unit know: at once those that have something to do."""
        (sifted, unmoved), self._sifted = self._sifted, ("", {})
        if sifted != commit:
            unmoved = {}
        for number, unit in enumerate(self._units):
            if number not in unmoved:
                unit.offer(commit)
        for number, (was, now) in unmoved.items():
            if not self._units[number].stays(was, now):
                self._units[number].offer(commit)
