"""Observation of a unit's live objects: states, rollouts, drift, and sentences for users."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from gitkruise.admission.conversion.registry import CONVERSIONS, convert
from gitkruise.errors import Concern, Finding
from gitkruise.gitops.cluster.engine import Engine
from gitkruise.gitops.status.rollout_annotation import annotated_stuck
from gitkruise.kube.cache.store import CachedObject, InformerCache
from gitkruise.model.gitops.change import ObjectChange, Redacted
from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.gitops.record import DriftRecord, ObjectRecord, PodRecord, Rollout
from gitkruise.model.gitops.sync_round import Live, SyncPlan
from gitkruise.model.gitops.unit_state import READY, State, worst
from gitkruise.model.workloads.labels import DEPLOYMENT, SIDECARSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.health.health import Health, Phase, health, held_by
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.progress.builtin import min_ready_s
from gitkruise.planner.progress.failing_pods import stuck_job, unready
from gitkruise.planner.report.redaction import covered
from gitkruise.planner.report.summary import shown
from gitkruise.planner.sync.annotations import (
    COMMIT,
    LEFT_ALONE,
    ROLLOUT,
    UNIT_REF,
    annotation,
    left_alone,
)
from gitkruise.planner.sync.hooks import JOB, over
from gitkruise.planner.sync.prune import ending
from gitkruise.printable import many
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.secret_names import concealed
from gitkruise.wire.primitives.times import format_time

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
PODS_NAMED: Final = 50  # of one rollout; longer lists of names are of no use
_LOOKS: Final = timedelta(minutes=1)  # what is not in order is looked at more often than this
NOT_APPLIED: Final = "not applied yet"


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The live objects of one unit at one instant; `owners` are the uids that own their pods."""

    live: Mapping[ObjectKey, Live]
    states: Mapping[ObjectKey, tuple[State, str]]
    rollouts: tuple[Rollout, ...]
    owners: frozenset[str] = frozenset()
    unknown: Mapping[ObjectKey, str] = field(default_factory=dict)  # perhaps live; why not seen

    @classmethod
    def beyond(cls, unlisted: Mapping[ObjectKey, str], seen: Observation) -> Observation:
        """Return `seen` with objects that it leaves out, each with a kind that is not listed."""
        unknown = {key: f"the API server does not list {kind}" for key, kind in unlisted.items()}
        states = {key: (State.UNKNOWN, why) for key, why in unknown.items()}
        return replace(seen, states={**seen.states, **states}, unknown=unknown)


def observed_since(since: datetime, looked: datetime, now: datetime) -> datetime:
    """Return `since`, moved by the time after `looked` that was not observed: the wall clock was
    set, or the machine was suspended, and a deadline must not be over for that."""
    passed = now - looked
    return since + passed - min(max(passed, timedelta()), _LOOKS)


class _Unmoved(NamedTuple):
    mark: tuple[object, ...]
    since: datetime
    looked: datetime


class Patience:
    """The time each rollout has made no progress; any change of a pod restarts it."""

    def __init__(self, limit: timedelta) -> None:
        self._limit = limit
        self._seen: dict[ObjectKey, _Unmoved] = {}

    def judge(self, rollout: Rollout, evidence: _Evidence, now: datetime) -> Rollout:
        """Return the rollout, Stuck when it has not changed for longer than the limit."""
        mark = (
            rollout.update_revision,
            rollout.updated,
            rollout.updated_ready,
            rollout.available,
            rollout.total,
            rollout.asked,
            rollout.generation_seen,
        )
        known = self._seen.get(rollout.key)
        if known is None:
            known = _Unmoved(mark, _unmoved_since(rollout, evidence, now), now)
        is_unmoved = mark == known.mark and rollout.state is State.ROLLING
        since = observed_since(known.since, known.looked, now) if is_unmoved else now
        self._seen[rollout.key] = _Unmoved(mark, since, now)
        if not is_unmoved or now - since < self._limit:
            return rollout
        text = f"no pod has moved since {format_time(since)}: {rollout.message}"
        waiting = ((pod.name, unready(pod)) for pod in evidence.pods if pod.active)
        name, why = next(((name, why) for name, why in waiting if why), ("", ""))
        text += f"; {name}: {why}" if why else ""
        return replace(rollout, state=State.STUCK, message=text)

    def wake_at(self, rollouts: Sequence[Rollout]) -> datetime | None:
        """Return when the first rolling one exceeds the limit."""
        due = [
            self._seen[r.key].since + self._limit
            for r in rollouts
            if r.state is State.ROLLING and r.key in self._seen
        ]
        return min(due, default=None)


class Observer:
    """Derives the state of a unit's live objects; for an unchanged object only once."""

    def __init__(self, store: InformerCache, engine: Engine, limit: timedelta) -> None:
        self._store, self._engine = store, engine
        self._patience = Patience(limit)
        self._judged: dict[tuple[ObjectKey, str], tuple[CachedObject, _ObservedState]] = {}
        self._rollouts: dict[ObjectKey, _ObservedRollout] = {}

    def look(self, versions: Mapping[ObjectKey, str], now: datetime) -> Observation:
        """Observe every object.

        `versions` names the objects, and git's API version of each ("" if git has none): a live
        rollout is compared in that version.
        """
        live: dict[ObjectKey, Live] = {}
        states: dict[ObjectKey, tuple[State, str]] = {}
        rollouts: list[Rollout] = []
        owners: set[str] = set()
        for key, version in versions.items():
            seen = self._store.seen(key)
            if seen is None:
                states[key] = (State.WAITING, self._absent(key.namespace))
                continue
            verdict = self._verdict(seen, version)
            live[key], states[key] = verdict.live, (verdict.state, verdict.live.why)
            if key.group_kind in ROLLOUTS:
                judged = self._rollout(seen, now)
                rollout = self._patience.judge(judged.rollout, judged.evidence, now)
                rollouts.append(rollout)
                owners |= judged.owners
                states[key] = (rollout.state, rollout.message)
                live[key] = _live(seen, verdict.live.obj, rollout.state, rollout.message)
            elif key.group_kind == JOB and not over(verdict.live.obj):
                uid = verdict.live.obj["metadata"]["uid"]
                owners.add(uid)
                why = stuck_job(verdict.live.obj, self._store.pods_of(uid, key.namespace))
                if why:
                    states[key] = (State.STUCK, why)
                    live[key] = _live(seen, verdict.live.obj, State.STUCK, why)
        return Observation(
            live=live, states=states, rollouts=tuple(rollouts), owners=frozenset(owners)
        )

    def _absent(self, namespace: str) -> str:
        """Return why an object is not there, as far as that is known."""
        space = self._store.seen(ObjectKey("", "Namespace", "", namespace))
        if namespace and space is not None and space.deleting:
            return f"Namespace {namespace} is being deleted"
        return "not in the cluster yet"

    def wake_at(self, rollouts: Sequence[Rollout]) -> datetime | None:
        """Return when the first of these rollouts exceeds the limit."""
        return self._patience.wake_at(rollouts)

    def forget(self, wanted: Collection[ObjectKey]) -> None:
        """Drop cached states of objects other than `wanted`."""
        self._judged = {k: v for k, v in self._judged.items() if k[0] in wanted}
        self._rollouts = {k: v for k, v in self._rollouts.items() if k in wanted}

    def _verdict(self, seen: CachedObject, version: str) -> _ObservedState:
        known = self._judged.get((seen.key, version))
        if known is not None and known[0] is seen:
            return known[1]
        obj = seen.read()
        if version and seen.key.group_kind in CONVERSIONS:
            obj = convert(obj, version)
        if seen.key.group_kind in ROLLOUTS:
            state, why = State.UNKNOWN, ""  # judged by its pods
        else:
            state, why = _judged(health(obj))
        verdict = _ObservedState(state, _live(seen, obj, state, why))
        self._judged[seen.key, version] = (seen, verdict)
        return verdict

    def _rollout(self, seen: CachedObject, now: datetime) -> _ObservedRollout:
        kind, obj = ROLLOUTS[seen.key.group_kind], self._verdict(seen, "").live.obj
        pods, revisions = (
            tuple(kind.pods(self._store, obj)),
            tuple(kind.revisions(self._store, obj)),
        )
        evidence = _Evidence(seen, pods, revisions, self._engine.name)
        known = self._rollouts.get(seen.key)
        timed = min_ready_s(obj)
        if known is not None and known.evidence == evidence and not timed:
            return known
        if known is not None and known.rollout.generation_seen:
            obj = _with_news(obj, known.evidence.owner)
        judged = kind.judge(obj, pods, revisions, now)
        named = _pod_records(pods) if seen.key.group_kind != SIDECARSET else ()
        rollout = replace(judged, engine=evidence.engine, pods=named)
        owners = frozenset(uid for pod in pods for uid in pod.owner_uids)
        found = self._rollouts[seen.key] = _ObservedRollout(evidence, rollout, owners)
        return found


def _unmoved_since(rollout: Rollout, evidence: _Evidence, now: datetime) -> datetime:
    """Return since when a rollout that is seen for the first time has not moved: `now`, unless an
    earlier process left it Stuck. The times of the cluster then show whether it moved since."""
    owner, pods = evidence.owner, evidence.pods
    if owner.spec_written is None or not annotated_stuck(owner.read(), rollout):
        return now
    moved = (time for pod in pods for time in (pod.created, pod.ready_since) if time is not None)
    return max((owner.spec_written, *moved))


def _with_news(obj: Obj, before: CachedObject) -> Obj:
    """Return a Deployment as seen by its controller where nothing but our annotation differs from
    `before`, which it has seen: a Deployment gets a generation for each change of an annotation."""
    meta, status = obj["metadata"], obj.get("status") or {}
    if key_of(obj).group_kind != DEPLOYMENT or meta["uid"] != before.uid:
        return obj
    if meta["generation"] == status.get("observedGeneration"):
        return obj
    if _asked(obj) != _asked(before.read()):
        return obj
    return {**obj, "status": {**status, "observedGeneration": meta["generation"]}}


def _asked(deployment: Obj) -> tuple[object, dict[str, str]]:
    notes = deployment["metadata"].get("annotations") or {}
    return deployment["spec"], {name: text for name, text in notes.items() if name != ROLLOUT}


def _pod_records(pods: Sequence[PodFacts]) -> tuple[PodRecord, ...]:
    if len(pods) > PODS_NAMED:
        return ()
    return tuple(
        PodRecord(p.name, p.short_revision, _pod_state(p))
        for p in sorted(pods, key=lambda p: p.name)
    )


def _pod_state(pod: PodFacts) -> str:
    return "Terminating" if pod.deleting else "Ready" if pod.ready else "NotReady"


class _ObservedState(NamedTuple):
    state: State
    live: Live


class _Evidence(NamedTuple):
    """All inputs of a rollout's state, except the time."""

    owner: CachedObject
    pods: tuple[PodFacts, ...]
    revisions: tuple[Obj, ...]
    engine: str


class _ObservedRollout(NamedTuple):
    evidence: _Evidence
    rollout: Rollout
    owners: frozenset[str]


def _live(seen: CachedObject, obj: Obj, state: State, why: str) -> Live:
    return Live(
        obj=obj,
        ready=state in READY,
        failed=state is State.STUCK,
        why=why,
        managed=seen.managed,
    )


def _judged(verdict: Health) -> tuple[State, str]:
    state = STATE_OF[verdict.phase]
    return state, "" if state is State.DONE else verdict.message or verdict.reason


def of_commit(desired: DesiredSet, seen: Observation, plan: SyncPlan | None) -> Observation:
    """Return the observation as an answer to the commit that the plan applies.

    A live object that does not have the commit's content yet is Waiting: its health and the counts
    of its pods are those of an earlier commit. A hook's state already is that of its run. A rollout
    that the commit does not contain is no answer to it: the plan deletes it, or gives the reason
    why it stays.
    """
    hooks = {d.key for d in desired.objects if d.hook}
    there = {*seen.live, *(plan.withheld if plan is not None else ())}  # perhaps without a mark
    unsent = {k: why for k, why in _unsent(plan) if k in there and k not in hooks}
    states = {key: (State.WAITING, why) for key, why in unsent.items()}
    wanted = {d.key for d in desired.objects}
    rollouts = tuple(
        replace(r, state=State.WAITING, message=unsent[r.key], generation_seen=False)
        if r.key in unsent
        else r
        for r in seen.rollouts
        if r.key in wanted
    )
    return replace(seen, states={**seen.states, **states}, rollouts=rollouts)


def _unsent(plan: SyncPlan | None) -> Iterator[tuple[ObjectKey, str]]:
    """Yield the objects whose content of git is not in the cluster, each with the reason."""
    if plan is None:
        return
    yield from ((waiting.key, waiting.why) for waiting in plan.waiting if not waiting.sent)
    drifted = {change.key for change in plan.drift}
    yield from ((d.key, NOT_APPLIED) for d in plan.apply if d.key not in drifted)
    yield from ((key, NOT_APPLIED) for key in plan.replace)
    yield from plan.withheld.items()


def object_records(
    desired: DesiredSet, seen: Observation, standing: Sequence[ObjectChange], unit: str
) -> tuple[ObjectRecord, ...]:
    """Return one record for every object of `unit` in git, in key order; `standing` drift is its
    state. What another unit applied has no commit: this one never had it in the cluster."""
    drifted = {change.key: change for change in standing}
    ordered = sorted(desired.objects, key=lambda d: d.key)
    return tuple(_record(d, seen, drifted, unit) for d in ordered)


def _record(
    d: Desired, seen: Observation, drifted: Mapping[ObjectKey, ObjectChange], unit: str
) -> ObjectRecord:
    state, message = seen.states.get(d.key, (State.WAITING, NOT_APPLIED))
    if d.key in drifted:
        state, message = State.DRIFTED, _differs(drifted[d.key])
    live = seen.live.get(d.key)
    if live is not None and annotation(live.obj, UNIT_REF) != unit:
        live = None
    return ObjectRecord(
        key=d.key,
        state=state,
        digest="" if d.secret else d.digest,
        commit=annotation(live.obj, COMMIT) if live is not None else "",
        message=message,
    )


def _differs(change: ObjectChange) -> str:
    """Return which fields differ from git, and who changed them."""
    names = [".".join(map(str, concealed(field.path))) for field in change.fields]
    managers = dict.fromkeys(owner for field in change.fields for owner, _ in field.owners[:1])
    text = f"differs from git in {names[0]}"
    text += f" and {len(names) - 1} more" if len(names) > 1 else ""
    return text + (f", changed by {', '.join(managers)}" if managers else "")


def drift_records(changes: Sequence[ObjectChange]) -> tuple[DriftRecord, ...]:
    """Return one line for each drifted field; a possible secret never leaves the process."""
    return tuple(
        DriftRecord(
            key=change.key,
            field=".".join(str(part) for part in concealed(field.path)),
            git=_open(field.after),
            live=_open(field.before),
            manager=field.owners[0][0] if field.owners else "",
            written=field.owners[0][1] if field.owners else "",
        )
        for change in changes
        for field in covered(change, bytes(32))
    )


def _open(value: object) -> str:
    return "(hidden)" if _is_veiled(value) else shown(value)


def _is_veiled(value: object) -> bool:
    if isinstance(value, Mapping):
        return any(map(_is_veiled, value.values()))
    return isinstance(value, Redacted) or (isinstance(value, list) and any(map(_is_veiled, value)))


_OF_GIT: Final = frozenset({Concern.REMOTE, Concern.HISTORY, Concern.SOURCE})


def unit_state(
    objects: Sequence[ObjectRecord],
    plan: SyncPlan | None,
    rejected: Finding | None,
    problems: Sequence[Finding],
    *,
    repeats: bool = False,
    leaving: Sequence[Obj] = (),
) -> tuple[State, str]:
    """Return the state of the unit and the sentence that explains it.

    A crash outweighs everything, then a rejected commit. Other problems make the unit Stuck, or
    Unknown when the cluster does not answer; a repository that does not answer leaves the state of
    the live objects unchanged. What is applied `repeats` a try that the cluster refused, which is
    one of `problems`: it is no news until it succeeds. Objects that are `leaving` left git, and are
    there until their deletion has ended.
    """
    crash = next((f for f in problems if f.concern is Concern.PROGRAM), None)
    if crash is not None:
        return State.STUCK, f"{crash.code}: {crash.message}"
    if rejected is not None:
        return State.REJECTED, f"{rejected.code}: {rejected.message}"
    fresh = fresh_objects(plan)
    if fresh and not repeats:
        return State.ROLLING, f"applying {len(fresh)} object{'s' if len(fresh) > 1 else ''}"
    state = worst(o.state for o in objects)
    problem = next((f for f in problems if f.is_error), None)
    if problem is not None:
        if problem.concern is Concern.CONNECTION:
            state = State.UNKNOWN
        elif state is not State.REJECTED and problem.concern not in _OF_GIT:
            state = State.STUCK
        return state, f"{problem.code}: {problem.message}"
    if state is State.DONE:
        aside = sum(bool(left_alone(o.message)) for o in objects)
        done = f"{many(len(objects) - aside, 'object')} as git asks"
        done += f", {aside} {LEFT_ALONE}" if aside else ""
        going = _deleting(leaving, plan.prune if plan is not None else ())
        going = going or (plan.soon if plan is not None else "")
        return (State.ROLLING, going) if going else (state, done)
    first = next(o for o in objects if o.state is state)
    return state, f"{first.key}: {first.message}" if first.message else str(first.key)


def leaving_objects(desired: DesiredSet, seen: Observation, unit: str) -> tuple[Obj, ...]:
    """Return the objects of a unit that git lacks and that are being deleted."""
    objects = (seen.live[key].obj for key in ending(seen.live, desired.by_key()))
    return tuple(obj for obj in objects if annotation(obj, UNIT_REF) == unit)


def _deleting(leaving: Sequence[Obj], due: Sequence[ObjectKey]) -> str:
    """Return what is being deleted or `due` to be; "" for nothing."""
    keys = [*map(key_of, leaving), *due]
    if not keys:
        return ""
    held = held_by(leaving[0]) if leaving else ""
    more = f" and {many(len(keys) - 1, 'more object')}" if len(keys) > 1 else ""
    return f"deleting {keys[0]}{more}" + (f"; {held}" if held else "")


def fresh_objects(plan: SyncPlan | None) -> tuple[ObjectKey, ...]:
    """Return the objects to send because git changed; corrections of drift do not count."""
    if plan is None:
        return ()
    drifted = {change.key for change in plan.drift}
    return (*(d.key for d in plan.apply if d.key not in drifted), *plan.replace)
