"""What a unit's live objects say, as a record: states, rollouts, drift, in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.admission.conversion import convert
from gitkruise.errors import Finding
from gitkruise.kube.store import Store
from gitkruise.model.change import Change, Desired, DesiredSet, Live, SyncPlan
from gitkruise.model.record import DriftRecord, ObjectRecord, Rollout
from gitkruise.model.states import State, worst
from gitkruise.planner.health import Health, Phase, health
from gitkruise.planner.rollouts import observe_rollout
from gitkruise.planner.sync.marks import COMMIT, annotation
from gitkruise.planner.sync.summary import shown
from gitkruise.wire.names import GroupKind, Obj, ObjectKey

CLONESET: Final = GroupKind("apps.kruise.io", "CloneSet")
REVISION: Final = GroupKind("apps", "ControllerRevision")
STATE_OF: Final = {
    Phase.CURRENT: State.DONE,
    Phase.IN_PROGRESS: State.ROLLING,
    Phase.HELD: State.HELD,
    Phase.PAUSED: State.PAUSED,
    Phase.FAILED: State.STUCK,
    Phase.TERMINATING: State.WAITING,
    Phase.NOT_FOUND: State.WAITING,
    Phase.UNKNOWN: State.UNKNOWN,
}
# Applied and kept, but driven only where OpenKruise is: nobody will ever write their status.
UNDRIVEN: Final = frozenset({GroupKind("apps.kruise.io", "SidecarSet")})
OWN: Final = "own"
READY: Final = frozenset({State.DONE, State.HELD})


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The live side of one unit at one instant."""

    live: Mapping[ObjectKey, Live]
    states: Mapping[ObjectKey, tuple[State, str]]
    rollouts: tuple[Rollout, ...]


class Patience:
    """How long each rollout has made no progress; any move of a pod starts it anew."""

    def __init__(self, limit: timedelta) -> None:
        self._limit = limit
        self._seen: dict[ObjectKey, tuple[tuple[object, ...], datetime]] = {}

    def judge(self, rollout: Rollout, now: datetime) -> Rollout:
        """The rollout, Stuck when it has not moved for longer than the limit."""
        mark = (
            rollout.update_revision,
            rollout.updated,
            rollout.updated_ready,
            rollout.available,
            rollout.total,
            rollout.asked,
        )
        before, since = self._seen.get(rollout.key, ((), now))
        if mark != before or rollout.state is not State.ROLLING:
            self._seen[rollout.key] = (mark, now)
            return rollout
        if now - since < self._limit:
            return rollout
        minutes = int((now - since).total_seconds() // 60)
        text = f"no pod has moved for {minutes} m: {rollout.message}"
        return replace(rollout, state=State.STUCK, message=text)

    def wake_at(self, rollouts: Sequence[Rollout]) -> datetime | None:
        """When the first of the rolling ones runs out of patience."""
        due = [
            self._seen[r.key][1] + self._limit
            for r in rollouts
            if r.state is State.ROLLING and r.key in self._seen
        ]
        return min(due, default=None)


def observe_unit(
    versions: Mapping[ObjectKey, str], store: Store, patience: Patience, now: datetime, engine: str
) -> Observation:
    """Judge every object by what the store shows.

    `versions` names the objects, and the API version git speaks of each ("" where git is
    silent): a live CloneSet is compared in the version it is written in.
    """
    live: dict[ObjectKey, Live] = {}
    states: dict[ObjectKey, tuple[State, str]] = {}
    rollouts: list[Rollout] = []
    for key, version in versions.items():
        obj = store.get(key)
        if obj is None:
            states[key] = (State.WAITING, "not in the cluster yet")
            continue
        if key.group_kind == CLONESET:
            rollout = patience.judge(rollout_of(obj, store, now), now)
            rollout = replace(rollout, engine=engine)
            rollouts.append(rollout)
            states[key] = (rollout.state, rollout.message)
        elif key.group_kind in UNDRIVEN and engine == OWN and not obj.get("status"):
            states[key] = (State.DONE, "")
        else:
            states[key] = _judged(health(obj))
        state, why = states[key]
        if version and key.group_kind == CLONESET:
            obj = convert(obj, version)
        live[key] = Live(obj=obj, ready=state in READY, failed=state is State.STUCK, why=why)
    return Observation(live=live, states=states, rollouts=tuple(rollouts))


def rollout_of(obj: Obj, store: Store, now: datetime) -> Rollout:
    """The rollout of a CloneSet as the store shows its pods and revisions."""
    meta = obj["metadata"]
    namespace = meta["namespace"]
    pods = store.pods_of(meta["uid"], namespace)
    revisions = store.owned(meta["uid"], REVISION, namespace)
    return observe_rollout(obj, pods, revisions, now)


def _judged(verdict: Health) -> tuple[State, str]:
    state = STATE_OF[verdict.phase]
    return state, "" if state is State.DONE else verdict.message or verdict.reason


def object_records(
    desired: DesiredSet, seen: Observation, drifted: frozenset[ObjectKey]
) -> tuple[ObjectRecord, ...]:
    """One record for every object git names, in key order."""
    return tuple(_record(d, seen, drifted) for d in sorted(desired.objects, key=lambda d: d.key))


def _record(d: Desired, seen: Observation, drifted: frozenset[ObjectKey]) -> ObjectRecord:
    state, message = seen.states.get(d.key, (State.WAITING, "not applied yet"))
    if d.key in drifted:
        state, message = State.DRIFTED, "differs from git"
    live = seen.live.get(d.key)
    return ObjectRecord(
        key=d.key,
        state=state,
        digest="" if d.secret else d.digest,
        commit=annotation(live.obj, COMMIT) if live else "",
        message=message,
    )


def drift_records(changes: Sequence[Change]) -> tuple[DriftRecord, ...]:
    """One line for each drifted field; values of Secrets never leave the process."""
    return tuple(
        DriftRecord(
            key=change.key,
            field=".".join(str(part) for part in field.path),
            git=_open(change.key, field.after),
            live=_open(change.key, field.before),
        )
        for change in changes
        for field in change.fields
    )


def _open(key: ObjectKey, value: object) -> str:
    return "(hidden)" if key.group_kind == GroupKind("", "Secret") else shown(value)


def unit_state(
    objects: Sequence[ObjectRecord], plan: SyncPlan | None, findings: Sequence[Finding]
) -> tuple[State, str]:
    """The state of the unit and the sentence that explains it."""
    errors = [f for f in findings if f.severity == "error"]
    if errors:
        return State.REJECTED, f"{errors[0].code}: {errors[0].message}"
    if plan is not None and plan.apply:
        return State.ROLLING, f"applying {len(plan.apply)} objects"
    state = worst(o.state for o in objects)
    if state is State.DONE:
        return state, f"{len(objects)} objects as git asks"
    first = next(o for o in objects if o.state is state)
    return state, f"{first.key}: {first.message}" if first.message else str(first.key)
