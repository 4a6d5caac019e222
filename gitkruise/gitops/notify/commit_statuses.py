"""Commit statuses on a forge that follow the records of units, through the outbox."""

from __future__ import annotations

import asyncio
import logging
import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

import msgspec

from gitkruise.errors import Crashed, SourceFailed
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.notify.channel import Channel
from gitkruise.gitops.notify.merge_commits import MergeCommits
from gitkruise.gitops.notify.outbox import OutboxEntry
from gitkruise.gitops.notify.sender import YIELDED_S
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.config import CommitStatus, Deployment
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.notifications import CommitStatusItem, LastStatus, OutboxItem
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.planner.notify.commit_statuses import (
    abandoned,
    aggregate_context,
    closing,
    context_of,
    deployment,
    due,
    statuses,
)
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_SENT: Final = "sent/"
_AGAIN_S, _AGAIN_MAX_S = 10.0, 300.0
_REST_S: Final = 0.3  # records of one moment are handled together
Superseded = dict[str, tuple[GitCommit, str]]


@dataclass(frozen=True, slots=True)
class StatusForm:
    """Kind of item that statuses become, and its name in the outbox.

    With `behind`, commits that a merge brought get statuses, too, and not the merge alone.
    """

    made: Callable[[CommitStatusItem], OutboxItem]
    name: str
    behind: bool


STATUSES: Final = StatusForm(lambda item: item, "status", behind=True)


@dataclass(frozen=True, slots=True)
class UnitBranch:
    """Merge commits of a unit's branch, and its newest commit."""

    merges: MergeCommits
    tip: Callable[[], str]


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusScope:
    """The cluster of statuses, and all `units` of its configuration: statuses of others are closed.

    `part` names the Sink or shard that the units are of: what is over all of them is its own. ""
    for all units.
    """

    cluster: str
    part: str = ""
    units: Collection[str] = ()

    def contexts(self, template: str) -> frozenset[str]:
        """Return the contexts that statuses of the units may have."""
        over_all = aggregate_context(template, self.cluster, self.part)
        named = (context_of(template, self.cluster, unit) for unit in self.units)
        return frozenset({over_all, *named})


class CommitStatusWriter:
    """Write the commit statuses that follow from records to the outbox, in a form.

    `branches` names every unit whose commits get statuses; records of other units are ignored.
    """

    def __init__(
        self,
        channel: Channel,
        rules: CommitStatus,
        branches: Mapping[str, UnitBranch],
        clock: Clock,
        *,
        scope: StatusScope,
        form: StatusForm = STATUSES,
        containment: Containment = UNREPORTED,
    ) -> None:
        self._channel, self._branches, self._clock = channel, branches, clock
        self._form, self._containment, self._failures = form, containment, 0
        self._rules, self._scope = rules, scope
        self._latest: dict[str, UnitRecord] = {}
        self._superseded: dict[str, Superseded] = {}
        self._last: dict[str, LastStatus] | None = None
        self._pending: set[str] = set()  # keys of `_told`
        self._abandoned: Sequence[CommitStatusItem] = ()  # not closed yet
        self._resumes = False  # another process reported meanwhile
        self._wake = asyncio.Event()

    def offer(self, record: UnitRecord) -> None:
        """Take the newest record of a unit. Never waits."""
        if record.unit not in self._branches:
            return
        self._latest[record.unit] = record
        overtaken = self._superseded.setdefault(record.unit, {})
        overtaken |= {commit.id: (commit, by) for commit, by in record.superseded}
        self._wake.set()

    async def run(self) -> None:
        """Write statuses until cancelled.

        None is written while another process reports; when that one has ended, all are written
        again.
        """
        self._wake.set()  # units that were removed have no record to wait for
        while True:
            if self._channel.yields():
                self._resumes = True
                self._wake.set()
                await self._clock.sleep(YIELDED_S)
                continue
            if not await wait_for(self._wake, self._clock, timedelta(seconds=YIELDED_S)):
                continue
            self._wake.clear()
            try:
                with self._containment.of(f"Sink {self._channel.name}", sqlite3.Error):
                    await self.write()
                self._failures = 0
            except (sqlite3.Error, Crashed) as error:
                log.warning(
                    log_line("commit-statuses-not-stored", channel=self._channel.name, error=error)
                )
                self._last = None  # read again: they may not have been stored
                self._failures += 1
                pause = pause_s(
                    self._failures, first_s=_AGAIN_S, cap_s=_AGAIN_MAX_S, seed=self._form.name
                )
                await self._clock.sleep(pause)
                self._wake.set()
            await self._clock.sleep(_REST_S)

    async def write(self) -> None:
        """Write the statuses that are new since the last call."""
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
            self._channel.posted()

    # In a thread ----------------------------------------------------------------------------

    def _write(self, records: Sequence[UnitRecord]) -> int:
        now = self._clock.now()
        last, closed = self._known(), self._abandoned
        if self._resumes:
            last.clear()  # the other process wrote over them
        entries: list[OutboxEntry] = []
        notes: dict[str, bytes | None] = {}
        for item in (*self._wanted(records), *closed):
            key = f"{item.commit}/{item.context}"
            before = last.get(key)
            when = due(before, item, now)
            if when is None:
                continue
            last[key] = self._next(before, item, when)
            (self._pending.add if item.state == "pending" else self._pending.discard)(key)
            entries.append(OutboxEntry(f"{self._form.name}/{key}", self._form.made(item), when))
            notes[_SENT + key] = msgspec.json.encode(last[key])
        if entries:
            self._channel.put(entries, notes)
        self._abandoned, self._resumes = (), False
        return len(entries)

    def _known(self) -> dict[str, LastStatus]:
        if self._last is None:
            found = self._channel.notes(_SENT)
            self._last = {
                key: msgspec.json.decode(body, type=LastStatus) for key, body in found.items()
            }
            self._pending = {key for key, last in self._last.items() if last.state == "pending"}
            split = ((key.partition("/"), last) for key, last in self._last.items())
            known = [(commit, context, last) for (commit, _, context), last in split]
            self._abandoned = abandoned(known, self._scope.contexts(self._rules.context))
        return self._last

    def _next(
        self, before: LastStatus | None, item: CommitStatusItem, when: datetime
    ) -> LastStatus:
        count = before.count + 1 if before else 1
        return LastStatus(item.state, item.description, when, count)

    def _wanted(self, records: Sequence[UnitRecord]) -> list[CommitStatusItem]:
        """Return the statuses of applied commits, their merges, and superseded commits."""
        landed = {record.unit: self._landed(record) for record in records}
        by_unit = {record.unit: record for record in records}
        found: dict[tuple[str, str], CommitStatusItem] = {}
        for view in (landed, by_unit) if self._form.behind else (landed,):
            for item in statuses(
                view, self._rules.context, self._scope.cluster,
                aggregate_above=self._rules.aggregate_above, alone=len(self._branches) == 1,
                part=self._scope.part,
            ):  # fmt: skip
                found.setdefault((item.commit, item.context), item)
        wanted = list(found.values())
        return [*wanted, *self._left(records, wanted)]

    def _left(
        self, records: Sequence[UnitRecord], wanted: Sequence[CommitStatusItem]
    ) -> list[CommitStatusItem]:
        complete = self._latest.keys() == self._branches.keys()
        over_all = aggregate_context(self._rules.context, self._scope.cluster, self._scope.part)
        known = [item for item in wanted if complete or item.context != over_all]
        self._known()
        pending = [key.partition("/") for key in sorted(self._pending)]
        unfinished = [(commit, context) for commit, _, context in pending]
        attempted = {
            (commit, context)
            for record in records if record.attempted is not None
            for commit in (record.attempted.id, self._at(record.unit, record.attempted).id)
            for context in (self._context(record.unit), over_all)
        }  # fmt: skip
        return closing(unfinished, known, attempted)

    def _context(self, unit: str) -> str:
        return context_of(self._rules.context, self._scope.cluster, unit)

    def _landed(self, record: UnitRecord) -> UnitRecord:
        """The record as if its commits were those that brought them to the branch."""
        overtaken = tuple((self._at(record.unit, c), by) for c, by in record.superseded)
        last = record.about
        if last is None:
            return replace(record, superseded=overtaken)
        at = self._at(record.unit, last)
        return replace(record, superseded=overtaken, attempted=at, causal=at)

    def _at(self, unit: str, commit: GitCommit) -> GitCommit:
        branch = self._branches[unit]
        tip = branch.tip()
        if not tip:
            return commit
        try:
            return replace(commit, id=branch.merges.merge_of(commit.id, tip))
        except SourceFailed as error:
            log.warning(log_line("merge-commit-unknown", unit=unit, error=error))
            return commit


def deployments(
    channel: Channel,
    spec: Deployment,
    branches: Mapping[str, UnitBranch],
    clock: Clock,
    *,
    scope: StatusScope,
    ref: str,
    containment: Containment = UNREPORTED,
) -> CommitStatusWriter:
    """Return the writer of one deployment per commit, with the state of all units that run it.

    A shard is an environment of its own. `ref` is the branch that is followed ("" for none). The
    channel should be of its own: a token that may not deploy holds up all of its items.
    """
    form = StatusForm(partial(deployment, ref=ref), "deployment", behind=False)
    over_all = CommitStatus(context=spec.environment)
    return CommitStatusWriter(
        channel, over_all, branches, clock, scope=scope, form=form, containment=containment
    )  # fmt: skip
