"""Run a model cluster with its controllers on virtual time until nothing is left to do.

At one instant the components (scheduler, kubelet) run until they are quiet, then every controller
whose objects changed plans and acts once, as live controllers batch changes; this repeats until
nothing is left to do. Then time jumps to the next due instant. Same World, same inputs,
same Trace.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final, Protocol

from gitkruise.model.planning.plan import (
    Applied,
    Create,
    Delete,
    Hold,
    Holds,
    Outcome,
    Patch,
    Plan,
    Refused,
    Stale,
)
from gitkruise.model.planning.trace import HELD, IN_PLACE, SIDECAR, Line, Trace
from gitkruise.model.planning.workload import Find, Workload, always, nobody
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import REVISION_HASH, SIDECARSET
from gitkruise.wire.primitives.backoff import backoff
from gitkruise.wire.primitives.names import (
    GroupKind,
    Obj,
    ObjectKey,
    controller_of,
    split_api_version,
)
from gitkruise.world.simulation.executor import Send, execute

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World
    from gitkruise.world.store.store import CommittedChange

ROUNDS_MAX: Final = 10_000  # planning rounds at one instant; more is a hot loop
RETRY_FIRST_S, RETRY_MAX_S = 1.0, 300.0
_PODS: Final = GroupKind("", "Pod")
_MOVING: Final = frozenset({"metadata", "status"})
_BOOKKEEPING: Final = frozenset({"resourceVersion", "managedFields"})
_COUNTS: Final = frozenset(  # not updatedReadyReplicas: it starts the download of images
    {
        "replicas",
        "readyReplicas",
        "availableReplicas",
        "updatedReplicas",
        "updatedAvailableReplicas",
        "expectedUpdatedReplicas",
        "fullyLabeledReplicas",
        "matchedPods",
        "updatedPods",
        "readyPods",
        "updatedReadyPods",
    }
)


class SimulatedComponent(Protocol):
    """A component of the cluster that acts by itself: kubelet, scheduler, faults."""

    def run(self, world: World, now: datetime) -> datetime | None:
        """Do everything due at `now`; the next due instant, None to wait for a change."""
        ...


class NeverQuietError(AssertionError):
    """Components keep reacting to each other at one instant: a hot loop."""


class Simulation:
    """A World, its components and controllers, and the current virtual instant."""

    def __init__(
        self,
        world: World,
        parts: Sequence[SimulatedComponent],
        workloads: Sequence[Workload[Any]],
        gates: Gates,
        start: datetime,
    ) -> None:
        self.world, self.parts, self.gates, self.now = world, parts, gates, start
        self.send: Send | None = None  # wraps requests of controllers (faults)
        self.events = True
        self._workloads: dict[tuple[str, str], Workload[Any]] = {w.kind: w for w in workloads}
        stored = ((w.kind, world.catalog.stored(w.kind)) for w in workloads)
        self._cluster_wide = {kind for kind, found in stored if found and not found.namespaced}
        self._naming = [w.named_by for w in workloads if w.named_by is not nobody]
        self._watches = [
            (workload.kind, kind, find)
            for workload in workloads
            for kind, find in (*workload.watches.items(), *workload.also_watches.items())
        ]
        self._seen = world.version
        self._dirty: dict[ObjectKey, None] = {}
        self._idle: set[ObjectKey] = set()  # their spec concerns no controller
        self.endless: set[ObjectKey] = set()  # what their spec asks for is never reached
        self._wakes: dict[ObjectKey, datetime] = {}
        self._failures: dict[ObjectKey, int] = {}
        self._holds: dict[ObjectKey, Holds] = {}
        self._lines: list[Line] = []
        for workload in workloads:
            keys = map(_key_in(workload.kind), world.objects(workload.kind))
            self.wake(filter(self._concerns, keys))

    def wake(self, keys: Iterable[ObjectKey]) -> None:
        """Queue `keys` for their controllers at the present instant."""
        self._dirty.update(dict.fromkeys(keys))

    def run_until(self, until: datetime) -> Trace:
        """Run everything that is due up to `until`; stops early when all is quiet.

        Raises NeverQuietError when one instant does not end.
        """
        start, self._lines = self.now, []
        due: datetime | None = self.now
        while due is not None and due <= until:
            self.now = max(due, self.now)
            due = self._instant()
        if due is not None:
            self.now = max(until, self.now)
        return Trace(start=start, end=self.now, lines=tuple(self._lines), quiet=due is None)

    def _instant(self) -> datetime | None:
        """Everything due now; the next instant at which something is due.

        Objects whose controller finds no end, such as a CloneSet whose template marks its pods for
        deletion, get no further round; the others go on.
        """
        for number in range(2 * ROUNDS_MAX):
            if number == ROUNDS_MAX:
                self.endless.update(self._dirty)
            version = self.world.version
            due = [part.run(self.world, self.now) for part in self.parts]
            self._wake_due()
            self._take_records()
            if self.world.version != version or any(d is not None and d <= self.now for d in due):
                continue
            if not self._dirty:
                self.world.trim_journal()
                return min(filter(None, [*due, *self._wakes.values()]), default=None)
            for key in sorted(self._dirty):
                self._dirty.pop(key, None)
                if self._concerns(key):
                    self._round(key)
                    self._take_records(key)
        raise NeverQuietError(f"no end of changes at {self.now}")

    def _wake_due(self) -> None:
        for key in [key for key, at in self._wakes.items() if at <= self.now]:
            del self._wakes[key]
            self._dirty[key] = None

    def _take_records(self, acted: ObjectKey | None = None) -> None:
        """Wake the owners of changed objects, and add trace lines of pods.

        The object that just `acted` is not woken by the counts in its own status.
        """
        records = self.world.records_since(self._seen)
        self._seen = self.world.version
        owners: set[tuple[str, str, str, str]] = set()
        watches: dict[tuple[str, str], list[Find]] = defaultdict(list)
        for woken, watched, find in self._watches:
            if self.world.state.knows(woken):  # otherwise nothing is there to wake
                watches[watched].append(find)
        for record in records:
            key = record.key
            kind = key[:2]
            if kind in self._workloads and self._wanted(record, acted):
                self._dirty[key] = None
            if kind == _PODS:
                self._note_pod(record, acted)
            for find in watches[kind]:
                self._dirty.update(dict.fromkeys(find(self.world, key)))
            _add_owners(owners, record)
        for owner in map(_owner, owners):
            if owner[:2] in self._workloads:
                wide = owner[:2] in self._cluster_wide
                self._dirty[owner._replace(namespace="") if wide else owner] = None

    def _wanted(self, record: CommittedChange, acted: ObjectKey | None) -> bool:
        """Return whether a controller may act on the change."""
        before, after = record.before, record.after
        if record.key in self._idle and before is not None:
            return after is not None and before.get("spec") is not after.get("spec")
        return record.key != acted or not _only_counts(record)

    def _note_pod(self, record: CommittedChange, acted: ObjectKey | None) -> None:
        """Add trace lines of a pod; wake the objects that its old and new annotations name."""
        self._lines += _pod_lines(record, self.now)
        if acted is not None and acted[:2] == SIDECARSET:
            self._lines += _sidecar_lines(record, self.now, acted)
        before, after = _notes(record.before), _notes(record.after)
        for notes in (after,) if before is after else (before, after):
            for named_by in self._naming if notes else ():
                for key in named_by(notes):
                    self._dirty[key] = None

    def _concerns(self, key: ObjectKey) -> bool:
        """Return whether the workload of this kind ever decides about `key`."""
        if key in self.endless:
            return False
        concerns = self._workloads[key[:2]].concerns
        if concerns is always or concerns(self.world, key):
            self._idle.discard(key)
            return True
        self._idle.add(key)
        return False

    def _round(self, key: ObjectKey) -> None:
        """Observe, decide and act once for one object."""
        workload = self._workloads[key.group_kind]
        snapshot = workload.observe(self.world, key, self.now)
        self._wakes.pop(key, None)
        if snapshot is None:
            self._holds.pop(key, None)
            return
        plan = workload.decide(snapshot, self.gates)
        outcomes = execute(
            plan, self.world, workload, key, self.now, send=self.send, events=self.events
        )
        self._note(key, plan, outcomes)
        self._plan_return(key, plan, outcomes)

    def _plan_return(self, key: ObjectKey, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        times = [plan.wake_at] if plan.wake_at else []
        if any(isinstance(o, Stale | Refused) for o in outcomes) or plan.problem:
            failures = self._failures[key] = self._failures.get(key, 0) + 1
            pause = backoff(failures, first=RETRY_FIRST_S, cap=RETRY_MAX_S)
            times.append(self.now + timedelta(seconds=pause))
        else:
            self._failures.pop(key, None)
        if times:
            self._wakes[key] = max(min(times), self.now + timedelta(milliseconds=1))

    def _note(self, key: ObjectKey, plan: Plan, outcomes: Sequence[Outcome]) -> None:
        """Add trace lines for actions, and for pods with a new reason to be held."""
        who = str(key)
        for outcome in outcomes:
            what, name = _words(outcome)
            why = "" if isinstance(outcome, Applied) else _failure_text(outcome)
            self._lines.append(Line(at=self.now, what=what, object=name, why=why, workload=who))
        known = self._holds.get(key, {})
        fresh: dict[str, str] = {}
        for reason, pods in plan.holds.items():
            if (before := known.get(reason)) is not pods:
                fresh |= dict.fromkeys(pods.difference(before or ()), _why(*reason))
        self._lines += [
            Line(at=self.now, what=HELD, object=pod, why=fresh[pod], workload=who)
            for pod in sorted(fresh)
        ]
        self._holds[key] = plan.holds

    def held(self, key: ObjectKey) -> dict[str, str]:
        """Return the pods of `key` that its last round held, with the reasons."""
        holds = self._holds.get(key, {})
        return {pod: _why(*reason) for reason, pods in holds.items() for pod in pods}


def _only_counts(record: CommittedChange) -> bool:
    """Return whether only status counts changed, which the controller writes but never reads."""
    before, after = record.before, record.after
    if before is None or after is None:
        return False
    if any(
        before.get(name) != after.get(name) for name in (before.keys() | after.keys()) - _MOVING
    ):
        return False
    old, new = before["metadata"], after["metadata"]
    if any(old.get(n) != new.get(n) for n in (old.keys() | new.keys()) - _BOOKKEEPING):
        return False
    old_status, new_status = before.get("status") or {}, after.get("status") or {}
    return all(
        old_status.get(n) == new_status.get(n)
        for n in (old_status.keys() | new_status.keys()) - _COUNTS
    )


def _key_in(kind: GroupKind) -> Any:
    def key(obj: Obj) -> ObjectKey:
        meta = obj["metadata"]
        return ObjectKey(kind.group, kind.kind, meta.get("namespace") or "", meta["name"])

    return key


@lru_cache(maxsize=1024)
def _why(why: Hold, detail: str) -> str:
    return f"{why} {detail}".strip()


def _words(outcome: Outcome) -> tuple[str, str]:
    match outcome.action:
        case Create(obj=obj):
            return f"Create{obj['kind']}", str(obj["metadata"].get("name") or "")
        case Patch(key=key):
            return f"Patch{key.kind}", key.name
        case Delete(key=key):
            return f"Delete{key.kind}", key.name


def _failure_text(outcome: Outcome) -> str:
    word = type(outcome).__name__
    return f"{word}: {outcome.error}" if isinstance(outcome, Stale | Refused) else word


def _pod_lines(record: CommittedChange, now: datetime) -> list[Line]:
    """Pods that are gone, moved to another revision in place, or whose Ready condition moved."""
    before, after = record.before, record.after
    found: list[tuple[str, str]] = []
    if after is None:
        found = [*([("unready", "")] if before and _is_ready(before) else []), ("gone", "")]
    elif before is None:
        found = [("ready", "")] if _is_ready(after) else []
    else:
        if before.get("status") is not after.get("status"):
            is_now = _is_ready(after)
            if _is_ready(before) != is_now:
                found.append(("ready" if is_now else "unready", ""))
        old, new = before["metadata"].get("labels"), after["metadata"].get("labels")
        if old is not new and _revision(before) != _revision(after):
            found.append((IN_PLACE, _revision(after)))
    if not found:
        return []
    name, owner = record.key.name, _owner_text(record)
    return [Line(at=now, what=what, object=name, why=why, workload=owner) for what, why in found]


def _notes(obj: Obj | None) -> Obj:
    return (obj["metadata"].get("annotations") if obj else None) or {}


def _add_owners(owners: set[tuple[str, str, str, str]], record: CommittedChange) -> None:
    """Add (namespace, apiVersion, kind, name) of those who own what changed, or did before."""
    space, last = record.key.namespace, None
    for obj in (record.before, record.after):
        refs = obj["metadata"].get("ownerReferences") if obj else None
        if refs and refs is not last:
            owners.update([(space, ref["apiVersion"], ref["kind"], ref["name"]) for ref in refs])
        last = refs


def _sidecar_lines(record: CommittedChange, now: datetime, acted: ObjectKey) -> list[Line]:
    """A pod whose sidecars a SidecarSet has just changed, and to which images."""
    before, after = _images(record.before), _images(record.after)
    moved = [f"{name} {before[name]} → {image}" for name, image in after.items()
             if before.get(name, image) != image]  # fmt: skip
    if not moved:
        return []
    pod = f"{record.key.namespace}/{record.key.name}"
    return [Line(at=now, what=SIDECAR, object=pod, why=", ".join(moved), workload=str(acted))]


def _images(pod: Obj | None) -> dict[str, str]:
    containers = (pod or {}).get("spec", {}).get("containers") or ()
    return {container["name"]: container["image"] for container in containers}


def _owner(reference: tuple[str, str, str, str]) -> ObjectKey:
    namespace, api_version, kind, name = reference
    return ObjectKey(split_api_version(api_version)[0], kind, namespace, name)


def _owner_text(record: CommittedChange) -> str:
    obj = record.after or record.before
    ref = controller_of(obj) if obj else None
    return f"{ref['kind']} {record.key.namespace}/{ref['name']}" if ref else ""


def _revision(pod: Obj) -> str:
    labels = pod["metadata"].get("labels") or {}
    return str(labels.get(REVISION_HASH) or "")


def _is_ready(pod: Obj) -> bool:
    for condition in (pod.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Ready":
            return bool(condition.get("status") == "True")
    return False
