"""Breaker on writes without progress: pauses a workload whose writes are undone again and again.

An ordinary rollout writes one thing on one object once in each generation of its spec: the gate
is closed once, the image changed once, the state moved on once. A lost answer may double a write,
a plan that was overtaken repeats one once more. Faults do not add up: a write that failed is no
write. So REPEATS_MAX equal writes on one object, of one generation and within WINDOW, are no
rollout: something reverts them. An object that was created and is gone is undone, too: the next
one of its kind replaces it, and REPEATS_MAX replacements in a row within WINDOW are no rollout
either. Rates of a workload say nothing of the sort, because a large one writes as much by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Any, Final, Generic, TypeVar

from gitkruise.model.planning.plan import (
    Applied,
    Create,
    Delete,
    Event,
    Outcome,
    Patch,
    Plan,
    Stale,
)
from gitkruise.model.planning.workload import Shows
from gitkruise.model.workloads import conditions as rule
from gitkruise.wire.primitives.backoff import backoff
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import RetryPause

K = TypeVar("K", bound=Hashable)
REPEATS_MAX: Final = 10
WINDOW: Final = timedelta(minutes=10)
FIRST, LONGEST = timedelta(minutes=1), timedelta(minutes=30)  # pauses, doubled each time
OBJECTS_MAX: Final = 20_000  # writes remembered of one workload

Write = tuple[str, frozenset[str]]  # uid, what is written


@dataclass(frozen=True, slots=True)
class Trip:
    """A pause: which object shows that writes are undone, and when nothing is written."""

    about: ObjectKey
    repeats: int
    pause: RetryPause
    created: bool = False  # the objects it replaced did not last

    @property
    def text(self) -> str:
        name = f"{self.about.kind} {self.about.name}"
        if self.created:
            seen = f"{name} is number {self.repeats} in a row to replace one that did not last"
        else:
            seen = f"{name} was written alike {self.repeats} times and does not keep it"
        return (
            f"GK4510: {seen}: something reverts these writes; "
            "paused, and tried again later or with a new spec"
        )


@dataclass(slots=True)
class _Row:
    first: datetime
    count: int = 0

    def counts(self, now: datetime) -> bool:
        """Return whether it began within WINDOW; no clock says that after it was set back."""
        return timedelta() <= now - self.first <= WINDOW


@dataclass(slots=True)
class _Watch:
    """One workload in one generation."""

    generation: Hashable
    rows: dict[Write, _Row] = field(default_factory=dict)
    born: dict[str, tuple[str, _Row]] = field(default_factory=dict)  # uid: kind, what it replaced
    trips: int = 0
    trip: Trip | None = None


class Breaker(Generic[K]):
    """Repeated writes by workload. `generation` is another when the spec is."""

    def __init__(self) -> None:
        self._watches: dict[K, _Watch] = {}

    def paused(self, key: K, generation: Hashable, now: datetime) -> Trip | None:
        """The pause that `key` is in."""
        watch = self._watches.get(key)
        if watch is None or watch.generation != generation:
            self._watches.pop(key, None)
            return None
        return watch.trip if watch.trip and watch.trip.pause.rests(now) else None

    def note(
        self,
        key: K,
        generation: Hashable,
        outcomes: Sequence[Outcome],
        now: datetime,
        *,
        lives: Callable[[str], bool],
    ) -> Trip | None:
        """Take in what became of a round; a pause if it is one write too many.

        `lives` says of a uid whether its object is still there.
        """
        watch = self._watches.get(key)
        if watch is None or watch.generation != generation:
            watch = self._watches[key] = _Watch(generation)
        self._forget_old(watch, now)
        lost = _lost(watch, lives) if any(isinstance(o.action, Create) for o in outcomes) else {}
        for outcome in outcomes:
            if not isinstance(outcome, Applied | Stale):
                continue
            row = _row(watch, lost, outcome, now)
            if row is not None and row.count >= REPEATS_MAX:
                return _trip(watch, row.count, outcome, now)
        return None

    def forget(self, key: K) -> None:
        self._watches.pop(key, None)

    def _forget_old(self, watch: _Watch, now: datetime) -> None:
        if len(watch.rows) > OBJECTS_MAX:
            watch.rows.clear()
        for write in [write for write, row in watch.rows.items() if not row.counts(now)]:
            del watch.rows[write]
        for uid in [uid for uid, (_, row) in watch.born.items() if not row.counts(now)]:
            del watch.born[uid]
        if watch.trip is not None and now - watch.trip.pause.until > WINDOW + LONGEST:
            watch.trip, watch.trips = None, 0


def _trip(watch: _Watch, repeats: int, outcome: Outcome, now: datetime) -> Trip:
    action = outcome.action
    created = isinstance(action, Create)
    about = key_of(action.obj) if isinstance(action, Create) else action.key
    pause = backoff(watch.trips + 1, first=FIRST, cap=LONGEST)
    trip = watch.trip = Trip(about, repeats, RetryPause(now, now + pause), created)
    watch.trips += 1
    watch.rows.clear()
    watch.born.clear()
    return trip


def _row(
    watch: _Watch, lost: Mapping[str, list[_Row]], outcome: Applied | Stale, now: datetime
) -> _Row | None:
    """The count that a write belongs to, with it; None for one that is not counted."""
    action = outcome.action
    if isinstance(action, Create):
        return _replacing(watch, lost, action, outcome, now)
    words = _words(action)
    if not words:
        return None
    row = watch.rows.setdefault((action.uid, words), _Row(now))
    row.count += 1
    return row


def _lost(watch: _Watch, lives: Callable[[str], bool]) -> dict[str, list[_Row]]:
    """Forget what was created and is gone: by kind the lines they end, the longest last."""
    gone = [uid for uid in watch.born if not lives(uid)]
    found: dict[str, list[_Row]] = {}
    for kind, row in sorted((watch.born.pop(uid) for uid in gone), key=lambda born: born[1].count):
        found.setdefault(kind, []).append(row)
    return found


def _replacing(
    watch: _Watch,
    lost: Mapping[str, list[_Row]],
    action: Create,
    outcome: Applied | Stale,
    now: datetime,
) -> _Row:
    """The row of an object that was created: after the one in the longest line of those gone."""
    kind = str(action.obj["kind"])
    if isinstance(outcome, Stale):
        row = watch.rows.setdefault((str(key_of(action.obj)), frozenset({"created"})), _Row(now))
        row.count += 1
        return row
    line = lost.get(kind)
    before = line.pop() if line else None
    row = _Row(before.first, before.count + 1) if before is not None else _Row(now)
    for obj in outcome.replies:
        if obj.get("kind") == kind and len(watch.born) < OBJECTS_MAX:
            watch.born[obj["metadata"]["uid"]] = (kind, row)
    return row


def event_of(trip: Trip) -> Event:
    return Event("Warning", "NoProgress", trip.text)


def pausing(plan: Plan, trip: Trip, shows: Shows, owner: Obj, now: datetime) -> Plan:
    """The plan of a round that writes nothing but why it pauses, where the kind shows that."""
    if shows is Shows.CONDITION:
        made = rule.condition(rule.STALLED, "True", reason="NoProgress", message=trip.text)
        status = plan.status_after(()) or owner.get("status") or {}
        return Plan(holds=plan.holds, status=_with(status, made, now), wake_at=trip.pause.until)
    noted = get(owner, "metadata", "annotations", rule.STALLED_NOTE, default="")
    if shows is Shows.ANNOTATION and noted != trip.text:
        return Plan(actions=(_noting(owner, trip.text),), wake_at=trip.pause.until)
    return Plan(wake_at=trip.pause.until)


def resuming(plan: Plan, shows: Shows, owner: Obj, now: datetime) -> Plan:
    """The plan, and what an earlier pause left taken back."""
    if shows is Shows.ANNOTATION:
        noted = get(owner, "metadata", "annotations", rule.STALLED_NOTE, default="")
        return replace(plan, actions=(*plan.actions, _noting(owner, None))) if noted else plan
    status = owner.get("status")
    known = rule.find((status or {}).get("conditions") or (), rule.STALLED)
    if shows is Shows.NOWHERE or known is None or known.get("status") != "True":
        return plan

    def conclude(outcomes: Sequence[Outcome]) -> Mapping[str, Any]:
        after = plan.status_after(outcomes) or status or {}
        return _with(after, rule.condition(rule.STALLED, "False"), now)

    return replace(plan, conclude=conclude)


def _noting(owner: Obj, text: str | None) -> Patch:
    """Say in an annotation of the workload why it pauses, or nothing any more."""
    return Patch.of(owner, {"metadata": {"annotations": {rule.STALLED_NOTE: text}}})


def _with(status: Mapping[str, Any], condition: Obj, now: datetime) -> dict[str, Any]:
    listed = rule.put(tuple(status.get("conditions") or ()), condition, now)
    return {**status, "conditions": [dict(one) for one in listed]}


def _words(action: Patch | Delete) -> frozenset[str]:
    """Return the fields written, with their values.

    Times and the values of annotations and messages are left out: they differ from round to round.
    Empty for a status other than a pod's: it may change to and fro for good reasons.
    """
    if isinstance(action, Delete):
        return frozenset({"deleted"})
    if action.seen is None and all(step.subresource == "status" for step in action.steps):
        return frozenset()
    found: set[str] = set()
    for step in action.steps:
        found.update(_leaves(step.body, step.subresource))
    return frozenset(found)


def _leaves(value: Any, path: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        for key, inner in value.items():
            if not str(key).endswith("Time"):
                yield from _leaves(inner, f"{path}/{key}")
    elif isinstance(value, list | tuple) and value:
        for at, inner in enumerate(value):
            named = inner.get("name") or inner.get("type") if isinstance(inner, Mapping) else None
            yield from _leaves(inner, f"{path}/{named or at}")
    elif "/annotations/" in path or path.endswith("/message"):
        yield path
    else:
        yield f"{path}={value}"
