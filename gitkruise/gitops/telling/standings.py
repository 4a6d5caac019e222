"""Statuses of commits kept as the records of units want them, through the box."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

import msgspec

from gitkruise.errors import SourceFailed
from gitkruise.gitops.telling.box import Post
from gitkruise.gitops.telling.landing import Landings
from gitkruise.gitops.telling.outlet import Outlet
from gitkruise.kube.clock import Clock
from gitkruise.model.config import CommitStatus
from gitkruise.model.document import Commit
from gitkruise.model.record import UnitRecord
from gitkruise.model.telling import Letter, StatusLetter, Told
from gitkruise.planner.telling.statuses import (
    aggregate_context,
    closing,
    due,
    statuses,
    told_of,
)

log = logging.getLogger(__name__)
_TOLD: Final = "told/"
_AGAIN_S: Final = 10.0
_REST_S: Final = 0.3  # news of one moment are looked at together
Superseded = dict[str, tuple[Commit, str]]


@dataclass(frozen=True, slots=True)
class Form:
    """What statuses become on a forge, under which name they are kept; `behind`: commits that a
    merge brought have them, too, and not the merge alone."""

    made: Callable[[StatusLetter], Letter]
    name: str
    behind: bool


STATUSES: Final = Form(lambda letter: letter, "status", behind=True)


@dataclass(frozen=True, slots=True)
class Ground:
    """Where a unit's commits are, and the newest of its branch that was looked at."""

    landings: Landings
    tip: Callable[[], str]


class Standings:
    """Hears records, and puts the statuses that follow from them into a box, in a form.

    `grounds` names every unit whose commits get statuses; records of others are not heard.
    """

    def __init__(
        self,
        outlet: Outlet,
        rules: tuple[CommitStatus, str],
        grounds: Mapping[str, Ground],
        clock: Clock,
        *,
        form: Form = STATUSES,
    ) -> None:
        self._outlet, self._grounds, self._clock = outlet, grounds, clock
        self._form = form
        self._rules, self._cluster = rules
        self._latest: dict[str, UnitRecord] = {}
        self._superseded: dict[str, Superseded] = {}
        self._told: dict[str, Told] | None = None
        self._pending: set[str] = set()  # keys of `_told`
        self._wake = asyncio.Event()

    def offer(self, record: UnitRecord) -> None:
        """Take the newest record of a unit. Never waits."""
        if record.unit not in self._grounds:
            return
        self._latest[record.unit] = record
        overtaken = self._superseded.setdefault(record.unit, {})
        overtaken |= {commit.id: (commit, by) for commit, by in record.superseded}
        self._wake.set()

    async def run(self) -> None:
        """Put statuses into the box until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            try:
                await self.write()
            except sqlite3.Error as error:
                log.warning("%s: statuses are not kept: %s", self._outlet.channel, error)
                self._told = None  # what was not kept was not told
                await self._clock.sleep(_AGAIN_S)
                self._wake.set()
            await self._clock.sleep(_REST_S)

    async def write(self) -> None:
        """Put what is new since the last time into the box."""
        overtaken = {unit: dict(found) for unit, found in self._superseded.items()}
        records = [
            replace(record, superseded=(*overtaken.get(unit, {}).values(), *record.superseded))
            for unit, record in self._latest.items()
        ]
        posted = await asyncio.to_thread(self._write, records)
        for unit, found in overtaken.items():
            for commit in found:
                del self._superseded[unit][commit]
        if posted:
            self._outlet.posted()

    # In a thread ----------------------------------------------------------------------------

    def _write(self, records: Sequence[UnitRecord]) -> int:
        now = self._clock.now()
        told = self._known()
        posts: list[Post] = []
        notes: dict[str, bytes | None] = {}
        for letter in self._wanted(records):
            key = f"{letter.commit}/{letter.context}"
            before = told.get(key)
            when = due(before, letter, now)
            if when is None:
                continue
            told[key] = self._next(before, letter, when)
            (self._pending.add if letter.state == "pending" else self._pending.discard)(key)
            posts.append(Post(f"{self._form.name}/{key}", self._form.made(letter), when))
            notes[_TOLD + key] = msgspec.json.encode(told[key])
        if posts:
            self._outlet.put(posts, notes)
        return len(posts)

    def _known(self) -> dict[str, Told]:
        if self._told is None:
            found = self._outlet.notes(_TOLD)
            self._told = {key: msgspec.json.decode(body, type=Told) for key, body in found.items()}
            self._pending = {key for key, told in self._told.items() if told.state == "pending"}
        return self._told

    def _next(self, before: Told | None, letter: StatusLetter, when: datetime) -> Told:
        count = before.count + 1 if before else 1
        return Told(letter.state, letter.description, when, count)

    def _wanted(self, records: Sequence[UnitRecord]) -> list[StatusLetter]:
        """For the commits units stand on, for the merges that brought them, and for those left."""
        landed = {record.unit: self._landed(record) for record in records}
        by_unit = {record.unit: record for record in records}
        found: dict[tuple[str, str], StatusLetter] = {}
        for view in (landed, by_unit) if self._form.behind else (landed,):
            for letter in statuses(
                view, self._rules.context, self._cluster,
                aggregate_above=self._rules.aggregate_above, alone=len(self._grounds) == 1,
            ):  # fmt: skip
                found.setdefault((letter.commit, letter.context), letter)
        wanted = list(found.values())
        return [*wanted, *self._left(wanted, complete=self._latest.keys() == self._grounds.keys())]

    def _left(self, wanted: Sequence[StatusLetter], *, complete: bool) -> list[StatusLetter]:
        over_all = aggregate_context(self._rules.context, self._cluster)
        known = [letter for letter in wanted if complete or letter.context != over_all]
        self._known()
        pending = [key.partition("/") for key in sorted(self._pending)]
        return closing([(commit, context) for commit, _, context in pending], known)

    def _landed(self, record: UnitRecord) -> UnitRecord:
        """The record as if its commits were those that brought them to the branch."""
        overtaken = tuple((self._at(record.unit, c), by) for c, by in record.superseded)
        told = told_of(record)
        if told is None:
            return replace(record, superseded=overtaken)
        at = self._at(record.unit, told)
        return replace(record, superseded=overtaken, attempted=at, causal=at)

    def _at(self, unit: str, commit: Commit) -> Commit:
        ground = self._grounds[unit]
        tip = ground.tip()
        if not tip:
            return commit
        try:
            return replace(commit, id=ground.landings.landing(commit.id, tip))
        except SourceFailed as error:
            log.warning("%s: %s", unit, error)
            return commit
