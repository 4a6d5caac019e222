"""Publisher: one writer per status branch; states are written immediately, counts together."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import msgspec

from gitkruise import __version__
from gitkruise.errors import Crashed, DiagnosticError, Finding, GitkruiseError, NotLeading
from gitkruise.git.push.status_branch import Notes, StatusBranch, Update
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.shared_write import SharedWrite
from gitkruise.gitops.status.serializer import (
    INDEX,
    UNITS,
    Detail,
    commit_body,
    commit_subject,
    commit_trailers,
    files_by_unit,
    intervention_lines,
    note_text,
    record_files,
    removal_subject,
    shared_files,
    without_unit,
)
from gitkruise.kube.client.limits import is_logged
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.record import Rollout, RolloutStep, UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.printable import visible
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
_BACKOFF_S = (1.0, 2.0, 5.0, 10.0, 30.0)
_LOOK_S = 60.0  # between two looks for records that the branch lost
_ANY_TIME = datetime.min.replace(tzinfo=UTC)  # a change of state is visible in the state itself
_TERMINAL = SETTLED | {State.STUCK, State.REJECTED}


def news(before: UnitRecord | None, after: UnitRecord) -> str:
    """Return why `after` is worth a commit: "now" for states and steps, "counts", or "".

    While a commit is being rolled out, everything about it can wait. So can pods that move while
    git does not: where they come to rest again quickly, nothing happened.
    """
    if before is None:
        return "now"
    if replace(before, sent=after.sent) == after:
        return ""
    known = _under_way(before) or before.state in SETTLED
    if known and _under_way(after) and _mark(before) == _mark(after):
        return "counts"
    return "now" if _quiet(before) != _quiet(after) else "counts"


def _under_way(record: UnitRecord) -> bool:
    return _gist(record.state) is State.ROLLING


def _mark(record: UnitRecord) -> tuple[object, ...]:
    """Return what git wants of the unit, and what is wrong with that or waited for."""
    parts = (record.findings, record.superseded, record.drift, record.promotion, record.waits)
    return (record.causal, record.attempted, *parts)


def _quiet(record: UnitRecord) -> UnitRecord:
    """Return the record without counts of pods; waiting for a moment counts as rolling."""
    return replace(
        record,
        state=_gist(record.state),
        message="",
        since=_ANY_TIME,
        sent=None,
        rollouts=tuple(_plain(r) for r in record.rollouts),
        steps=tuple((key, tuple(map(_plain_step, steps))) for key, steps in record.steps),
        objects=tuple(replace(o, state=_gist(o.state), message="") for o in record.objects),
    )


def _plain_step(step: RolloutStep) -> RolloutStep:
    state = _gist(step.state)
    return replace(step, state=state, asked=0, replicas=0, updated=0, done=None, message="")


def _gist(state: State) -> State:
    return State.ROLLING if state is State.WAITING else state


def _plain(rollout: Rollout) -> Rollout:
    return replace(
        rollout,
        state=_gist(rollout.state),
        message="",
        replicas=0,
        kept=0,
        asked=0,
        budget=0,
        updated=0,
        updated_ready=0,
        ready=0,
        total=0,
        available=0,
        generation_seen=True,
        update_revision="",
        current_revision="",
        revisions=(),
        failing=(),
        hindered=(),
        refused="",
        pods=(),
        members=frozenset(),
        behind=frozenset(),
        unready=frozenset(),
    )


class Outbox:
    """Latest records by unit, and a loop that writes them to one branch (and its notes).

    Records replace each other, so a slow or unreachable repository costs memory for one record per
    unit and never blocks applying. `coalesce` is how long counts may wait for other news.
    """

    def __init__(
        self,
        branch: StatusBranch,
        notes: Notes | None,
        clock: Clock,
        *,
        coalesce: timedelta,
        renew: Callable[[], Awaitable[None]] | None = None,
        detail: Detail = "workload",
        containment: Containment = UNREPORTED,
    ) -> None:
        """`renew` re-reads credentials and keys before each write."""
        self._branch, self._notes, self._clock = branch, notes, clock
        self._renew, self._detail = renew, detail
        self._coalesce_s = coalesce.total_seconds()
        self._latest: dict[str, UnitRecord] = {}
        self._written: dict[str, UnitRecord] = {}
        self._urgent: dict[str, str] = {}  # by unit: how urgent its latest record is, if at all
        self._paths: dict[str, frozenset[str]] = {}
        self._found: dict[str, frozenset[str]] | None = None  # our files at the start, by unit
        self._writing = asyncio.Lock()  # a commit is made from what the one before left
        self._forgetting = SharedWrite(self._forget_all, self._writing)
        self._leaving: dict[str, tuple[UnitRecord, str]] = {}  # to another Sink, and the reason
        self._left: set[str] = set()
        self._wake = asyncio.Event()
        self.problem = ""  # why the newest records are not in git yet
        self.crashed: Callable[[Finding | None], None] = lambda _: None  # None when it is over
        self.yields: Callable[[], bool] = lambda: False  # while another process reports
        self._containment, self._alone = containment, False  # one record at a time

    @property
    def branch(self) -> StatusBranch:
        """Return the branch that records are written to."""
        return self._branch

    def offer(self, record: UnitRecord) -> None:
        """Queue the newest record of a unit, which replaces a waiting one.

        Commits that were overtaken unseen are carried along until they are written.
        """
        self._leaving.pop(record.unit, None)
        self._left.discard(record.unit)
        waiting = self._latest.get(record.unit)
        if waiting is not None and waiting is not self._written.get(record.unit):
            kept = tuple(s for s in waiting.superseded if s not in record.superseded)
            record = replace(record, superseded=(*kept, *record.superseded))
        self._latest[record.unit] = record
        if self._weigh(record.unit) == "now":
            self._wake.set()

    @property
    def reported(self) -> Mapping[str, UnitRecord]:
        """Return the newest records that this process has of the branch's units."""
        return self._latest

    def hand_over(self, record: UnitRecord, why: str) -> None:
        """Remove a unit that reports elsewhere now, with the next write and until it succeeds."""
        if record.unit not in self._left:
            self._left.add(record.unit)
            self._leaving[record.unit] = record, why
            self._wake.set()

    async def forget(self, record: UnitRecord, why: str) -> None:
        """Remove a unit from the branch. Raises SourceFailed.

        One commit removes all units that wait for the branch at the same moment.
        """
        await self._forgetting.of(record.unit, (record, why))

    async def _forget_all(self, ended: Mapping[str, tuple[UnitRecord, str]]) -> None:
        for unit in ended:
            self._latest.pop(unit, None)
            self._written.pop(unit, None)
            self._urgent.pop(unit, None)
        await asyncio.to_thread(self._remove, [*ended.values()])
        for unit in ended:
            self._paths.pop(unit, None)

    def _remove(self, ended: Sequence[tuple[UnitRecord, str]]) -> None:
        records, rest = [record for record, _ in ended], list(self._latest.values())
        gone = frozenset[str]().union(*(self._known_paths(record.unit) for record in records))

        def merged(read: Callable[[str], bytes | None]) -> Mapping[str, bytes]:
            index = self._index(read)
            for record in records:
                index = without_unit(index, record.unit)
            return shared_files(rest, index)

        update = Update(
            files={},
            merged=merged,
            delete=tuple(sorted(gone)),
            subject=removal_subject(records, ended[0][1]),
            body=intervention_lines([one for r in records for one in r.interventions]),
            trailers=[
                ("Gitkruise-Cluster", records[0].cluster),
                *(("Gitkruise-Unit", record.unit) for record in records),
            ],
        )
        self._branch.publish(update, self._clock.now())

    @property
    def idle(self) -> bool:
        """Return whether the branch holds every record."""
        return not (self._urgent or self._leaving)

    def _weigh(self, unit: str) -> str:
        """Compare the latest record of a unit with the written one; return its urgency."""
        urgency = news(self._written.get(unit), self._latest[unit])
        self._urgent.pop(unit, None)
        if urgency:
            self._urgent[unit] = urgency
        return urgency

    async def run(self) -> None:
        """Write until cancelled; what is due then is written by `flush`."""
        failures, looked, resumes = 0, self._clock.monotonic(), False
        while True:
            await wait_for(self._wake, self._clock, timedelta(seconds=self._coalesce_s))
            self._wake.clear()
            began = self._clock.monotonic()
            if self.yields():
                await self._start_over()
                resumes = True
                continue
            if resumes:
                resumes = False
                for unit in self._latest:
                    self._weigh(unit)
            if self.idle and began < looked + _LOOK_S:
                continue
            try:
                # What is new is written first: a look at a remote takes a while.
                if began >= looked + (_LOOK_S if self.idle else 2 * _LOOK_S):
                    looked = began
                    await self._restore_lost()
                await self._flush_due()
                failures = 0
                rest_s = min(self._clock.monotonic() - began, self._coalesce_s)
                await self._clock.sleep(rest_s)  # simultaneous news of many units share few commits
            except NotLeading:
                continue
            except GitkruiseError as error:
                self._failed(error, failures)
                await self._clock.sleep(_BACKOFF_S[min(failures, len(_BACKOFF_S) - 1)])
                failures += 1

    def _failed(self, error: GitkruiseError, failures: int) -> None:
        """Keep why the newest records are not in git; log it after fewer and fewer `failures`."""
        found = error.findings[0] if isinstance(error, DiagnosticError) else None
        self.problem = found.with_cause if found is not None else str(error)
        following = dict(found.notes).get("next", "") if found is not None else ""
        if is_logged(failures + 1):
            more = {"next": following} if following else {}
            ref = self._branch.ref
            log.warning(log_line("status-branch-not-written", ref=ref, error=self.problem, **more))

    async def _restore_lost(self) -> None:
        """Queue the records that the branch has no more: it was deleted, or another one is there.

        Raises SourceFailed.
        """
        async with self._writing:
            there = await asyncio.to_thread(self._units_there)
            for unit in self._written.keys() - there if there is not None else ():
                del self._written[unit]
                self._weigh(unit)

    def _units_there(self) -> frozenset[str] | None:
        """Return the units on the branch; None where no other writer changed it."""
        if not self._branch.moved():
            return None
        return frozenset(files_by_unit(self._branch.paths(UNITS)))

    async def _flush_due(self) -> None:
        """Write everything that is due.

        After a crash records are written one by one, so that one that cannot be written blocks no
        other.
        """
        try:
            with self._containment.of(self._branch.ref):
                await (self._flush_each() if self._alone else self.flush())
        except Crashed as error:
            self._alone = True
            self.crashed(error.findings[0])
            raise
        self._alone = False
        self.crashed(None)

    async def _flush_each(self) -> None:
        crash = None
        for unit in self._order():
            try:
                with self._containment.of(f"{self._branch.ref}: the record of unit {unit}"):
                    await self._write([unit])
            except Crashed as error:
                crash = error
        if crash is not None:
            raise crash

    async def flush(self) -> str | None:
        """Write everything that is due in one commit; return its id, or None when nothing was
        due."""
        if self.idle or self.yields():
            return None
        if self._renew is not None:
            await self._renew()
        await self._let_go()
        return await self._write(self._order())

    async def _start_over(self) -> None:
        """Forget what the branch holds: another process writes it now. Once that one has ended,
        every record is written again."""
        async with self._writing:
            self._written.clear()
            self._urgent.clear()
            self._paths.clear()
            self._found = None

    async def _let_go(self) -> None:
        """Remove the units that report elsewhere now. Raises SourceFailed."""
        async with self._writing:
            leaving = {**self._leaving}
            if leaving:
                await self._forget_all(leaving)
            for unit in leaving:
                self._leaving.pop(unit, None)

    def _order(self) -> list[str]:
        return sorted(self._urgent, key=lambda unit: (self._urgent[unit] != "now", unit))

    async def _write(self, order: Sequence[str]) -> str | None:
        async with self._writing:
            due = [self._latest[unit] for unit in order if unit in self._latest]
            commit = await asyncio.to_thread(self._publish, due) if due else None
            self.problem = ""
            self._written |= {record.unit: record for record in due}
            for record in due:
                self._weigh(record.unit)
        return commit

    def _fresh(self, record: UnitRecord) -> UnitRecord:
        """Return the record with only those overtaken commits and interventions that are in no
        status commit yet, for the message of the next one."""
        written = self._written.get(record.unit)
        if written is None:
            return replace(record, interventions=())  # read from the branch, after a restart
        return replace(
            record,
            superseded=tuple(s for s in record.superseded if s not in written.superseded),
            interventions=tuple(i for i in record.interventions if i not in written.interventions),
        )

    def _unmoved(self, record: UnitRecord) -> bool:
        """Return whether interventions are the only news of a record."""
        written = self._written.get(record.unit)
        if written is None or written.interventions == record.interventions:
            return False
        return not news(written, replace(record, interventions=written.interventions))

    def _publish(self, due: Sequence[UnitRecord]) -> str | None:
        files: dict[str, bytes] = {}
        gone: set[str] = set()
        for record in due:
            own = record_files(record, self._detail)
            gone |= self._known_paths(record.unit) - own.keys()
            self._paths[record.unit] = frozenset(own)
            files |= own
        latest = list(self._latest.values())
        now, fresh = self._clock.now(), [self._fresh(record) for record in due]
        commit = self._branch.publish(
            Update(
                files=files,
                merged=lambda read: shared_files(latest, self._index(read)),
                delete=tuple(sorted(gone)),
                subject=commit_subject(fresh, unmoved=self._unmoved(due[0])),
                body=commit_body(fresh),
                trailers=commit_trailers(fresh),
            ),
            now,
        )
        self._annotate(due)
        return commit

    def _index(self, read: Callable[[str], bytes | None]) -> bytes | None:
        """Return the index of the tip that a commit is made on. Raises NotLeading.

        The push takes no other tip. A process that was stopped after it began to write asks here
        again who leads, so that it does not write over newer records.
        """
        if self.yields():
            raise NotLeading(f"another process writes {self._branch.ref}")
        return read(INDEX)

    def _known_paths(self, unit: str) -> frozenset[str]:
        """Return our files of a unit on the branch, listed once after a start."""
        if unit not in self._paths:
            if self._found is None:
                self._found = files_by_unit(self._branch.paths(UNITS))
            self._paths[unit] = self._found.get(unit, frozenset())
        return self._paths[unit]

    def _annotate(self, due: Iterable[UnitRecord]) -> None:
        """Write the note on each causal commit, for `git log --notes=gitkruise/<cluster>`."""
        if self._notes is None:
            return
        texts: dict[str, dict[str, object]] = {}
        for record in due:
            if record.causal and record.state in _TERMINAL:
                texts.setdefault(record.causal.id, {})[record.unit] = note_text(record, __version__)
        if not texts:
            return
        notes = {commit: _note(units) for commit, units in texts.items()}
        self._notes.put(notes, self._clock.now(), _merged_note)


def _note(units: Mapping[str, object]) -> str:
    line = json.dumps({"v": 1, "units": units}, ensure_ascii=False)
    text = visible(line.encode(errors="replace").decode())  # half a surrogate pair is no text
    return msgspec.json.format(text, indent=1)  # json would indent in Python, ten times slower


def _merged_note(earlier: str | None, note: str) -> str:
    return _note({**_units_of(earlier), **_units_of(note)})


def _units_of(note: str | None) -> dict[str, object]:
    """Return the units of an earlier note; a foreign note is replaced."""
    try:
        value = json.loads(note) if note else {}
    except ValueError:
        return {}
    units = value.get("units") if isinstance(value, dict) else None
    return units if isinstance(units, dict) else {}
