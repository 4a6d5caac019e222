"""Statuses of custom resources: written when they say something new, and soon but not often."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final, TypeAlias

from gitkruise.errors import ApiError, Crashed, Finding
from gitkruise.gitops.config.fingerprints import sink_of
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.resources.conditions import (
    ConditionContext,
    broken_unit,
    events_of,
    leaving_unit,
    plain_status,
    revision_of,
    sink_status,
    source_status,
    unit_status,
)
from gitkruise.gitops.resources.declared import Declared, Name, name_of
from gitkruise.gitops.resources.informers import CustomResources
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.gitops.source.ref_resolver import ref_of
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.shards import WHOLE, Shard
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import RetryPause

log = logging.getLogger(__name__)
GATHER_S: Final = 0.1  # news of one moment are one status
BETWEEN: Final = timedelta(seconds=1)  # two statuses that only count
LOOK: Final = timedelta(seconds=15)  # whether status branches are behind
AGAIN: Final = timedelta(seconds=5)  # after a refusal
_NOTHING: Final = Declared(Config(), {}, ())
ProblemListener: TypeAlias = Callable[[Name, Finding | None], None]  # None: solved


@dataclass(slots=True)
class StatusWriter:
    """Answers every custom resource of its shard in its status."""

    resources: CustomResources
    clock: Clock
    containment: Containment = UNREPORTED
    problems: ProblemListener = lambda *_: None
    shard: Shard = WHOLE
    fleet: Supervisor | None = None  # once there is one
    declared: Declared = _NOTHING
    _problems: dict[Name, Finding] = field(default_factory=dict)  # as they were reported
    _leaving: dict[Name, str] = field(default_factory=dict)
    _dirty: set[Name] = field(default_factory=set)
    _rests: dict[Name, RetryPause] = field(default_factory=dict)  # no count is written before
    _refused: set[Name] = field(default_factory=set)  # statuses that could not be written
    _behind: dict[str, str] = field(default_factory=dict)  # by sink
    _handled: dict[str, str] = field(default_factory=dict)  # by uid: requests to confirm
    _wake: asyncio.Event = field(default_factory=asyncio.Event)

    # News -----------------------------------------------------------------------------------

    def receive(self, record: UnitRecord) -> None:
        """A unit has a new record."""
        self._mark(("Unit", record.unit))

    def moved(self, source: str) -> None:
        """Take note that a source has another state."""
        self._mark(("GitSource", source))

    def crashed(self, name: Name) -> None:
        """A sink or receiver crashed, or is well again."""
        self._report([name])
        self._mark(name)

    def leaving(self, record: UnitRecord) -> None:
        """A unit that is being deleted cannot go yet."""
        self._leaving["Unit", record.unit] = record.message
        self._mark(("Unit", record.unit))

    def confirm(self, obj: Obj, value: str) -> None:
        """A request to reconcile was carried out."""
        self._handled[obj["metadata"]["uid"]] = value
        self._mark(name_of(obj))

    def changed(self, declared: Declared, supervisor: Supervisor) -> None:
        """Something else runs than before."""
        self.declared, self.fleet = declared, supervisor
        objects = self.resources.objects()
        names = {name_of(obj) for obj in objects if self.shard.owns(name_of(obj)[1])}
        there = {obj["metadata"]["uid"] for obj in objects}
        self._handled = {uid: value for uid, value in self._handled.items() if uid in there}
        self._problems = {n: problem for n, problem in self._problems.items() if n in names}
        self._report(names)
        self._rests = {n: at for n, at in self._rests.items() if n in names}
        self._refused &= names
        self._leaving = {n: why for n, why in self._leaving.items() if n in names}
        self._dirty |= names
        self._wake.set()

    def problem_of(self, name: Name) -> Finding | None:
        """Return the reason why an object does not run; None if it runs, or nothing runs yet."""
        if self.fleet is None:
            return None
        problem = self.declared.broken.get(name) or self.fleet.errors.get(name)
        return problem or self.fleet.crashes.get(name)

    def _report(self, names: Iterable[Name]) -> None:
        """Report problems that are new, changed or solved."""
        for name in sorted(name for name in names if self.shard.owns(name[1])):
            before, problem = self._problems.pop(name, None), self.problem_of(name)
            if problem is not None:
                self._problems[name] = problem
            if _words(problem) != _words(before):
                self.problems(name, problem)

    def _mark(self, name: Name) -> None:
        if self.shard.owns(name[1]):
            self._dirty.add(name)
            self._wake.set()

    # Writing --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            now = self.clock.now()
            due = [rest.until - now for name, rest in self._rests.items() if name in self._dirty]
            await wait_for(self._wake, self.clock, max(min([LOOK, *due]), timedelta()))
            await self.clock.sleep(GATHER_S)
            self._wake.clear()
            self._look_behind()
            await self._flush()

    async def _flush(self) -> None:
        ready, self._dirty = self._dirty, set()
        due: list[tuple[Name, Obj, Obj]] = []
        for name in sorted(ready):
            obj = self.resources.get(name)
            try:
                with self.containment.of(f"{' '.join(name)}: its status"):
                    status = self._status(name, obj) if obj is not None else None
            except Crashed:
                self._later(name)
                continue
            if obj is None or status is None or status == obj.get("status"):
                continue
            now = self.clock.now()
            counts = _gist(status) == _gist(obj.get("status"))
            rest = self._rests.get(name)
            rests = rest is not None and rest.rests(now)
            if rests and (counts or name in self._refused):
                self._dirty.add(name)  # it can wait
                continue
            self._rests[name] = RetryPause(now, now + BETWEEN)
            self._refused.discard(name)
            due.append((name, obj, status))
        async with asyncio.TaskGroup() as tasks:
            for news in due:
                tasks.create_task(self._say(*news))

    async def _say(self, name: Name, obj: Obj, status: Obj) -> None:
        try:
            with self.containment.of(f"{' '.join(name)}: its status"):
                await self.resources.say(obj, status)
                uid = obj["metadata"]["uid"]
                if self._handled.get(uid) == status.get("lastHandledReconcileAt"):
                    self._handled.pop(uid, None)  # from now on the object itself says so
                for event in events_of(obj.get("status"), status):
                    self.resources.record(obj, event)
        except (ApiError, Crashed) as error:
            log.warning(log_line("status-not-written", object="/".join(name), error=error))
            self._later(name)

    def _later(self, name: Name) -> None:
        """A status that could not be written is tried again."""
        now = self.clock.now()
        self._rests[name] = RetryPause(now, now + AGAIN)
        self._refused.add(name)
        self._dirty.add(name)

    def _look_behind(self) -> None:
        """Statuses that show whether the branch is written, when that has changed."""
        if self.fleet is None:
            return
        behind = {name: outbox.problem for name, outbox in self.fleet.outboxes.items()}
        for name, unit in self.fleet.config.units.items():
            sink = sink_of(unit)
            if behind.get(sink) != self._behind.get(sink):
                self._dirty |= {("Unit", name), ("Sink", sink)}
        self._behind = behind

    # What to say ----------------------------------------------------------------------------

    def _status(self, name: Name, obj: Obj) -> Obj | None:
        """None while there is nothing to say yet: what an earlier process said is the last that is
        known."""
        context = ConditionContext(
            obj, self.clock.now(), self._handled.get(obj["metadata"]["uid"], "")
        )
        if self.fleet is None:
            return None
        problem = self.problem_of(name)
        match name[0]:
            case "Unit":
                return self._unit(name, problem, context)
            case "GitSource":
                return self._source(name[1], problem, context)
            case "Sink":
                outbox = self.fleet.outboxes.get(name[1])
                return sink_status(problem, outbox.problem if outbox is not None else "", context)
            case _:
                hook = self.fleet.hooks.get(name[1], "")
                return plain_status(
                    problem, "listening", context, **({"url": hook} if hook else {})
                )

    def _unit(self, name: Name, problem: Finding | None, context: ConditionContext) -> Obj | None:
        assert self.fleet is not None
        if get(context.obj, "metadata", "deletionTimestamp"):
            return leaving_unit(self._leaving.get(name, "its objects are seen to"), context)
        if problem is not None:
            return broken_unit(problem, context)
        reporter = self.fleet.reporters.get(name[1])
        if reporter is None or (context.obj.get("status") and not reporter.looked):
            return None
        unit = self.fleet.config.units[name[1]]
        outbox = self.fleet.outboxes.get(sink_of(unit))
        unpublished = outbox.problem if outbox is not None else None
        return unit_status(unit, reporter.record, unpublished, context)

    def _source(self, name: str, problem: Finding | None, context: ConditionContext) -> Obj | None:
        assert self.fleet is not None
        source = self.fleet.config.sources.get(name)
        follower = self.fleet.followers.get(name)
        if problem is not None or source is None or follower is None:
            return source_status("", "", problem, context) if problem is not None else None
        stands = follower.revision or revision_of(ref_of(source), follower.followed)
        if context.obj.get("status") and not stands and follower.problem is None:
            return None
        return source_status(stands, follower.followed, follower.problem, context)


def _words(problem: Finding | None) -> tuple[str, str] | None:
    return (problem.code, problem.message) if problem is not None else None


def _gist(status: Mapping[str, object] | None) -> object:
    """A status without what only counts."""
    if status is None:
        return None
    conditions = status.get("conditions")
    listed = conditions if isinstance(conditions, list) else []
    turns = [(c["type"], c["status"], c["reason"]) for c in listed]
    still = ("phase", "observedGeneration", "lastAppliedRevision", "lastAttemptedRevision", "url",
             "lastHandledReconcileAt")  # fmt: skip
    return turns, [status.get(key) for key in still]
