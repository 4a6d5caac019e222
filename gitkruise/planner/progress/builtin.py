"""Progress of StatefulSets, OpenKruise's among them, and DaemonSets: pods by ControllerRevision.

The counterpart for CloneSets is `planner.progress.cloneset`: the same words for the same states.
Source: StatefulSet and DaemonSet controllers of Kubernetes 1.34.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from gitkruise.model.gitops.record import UNSEEN, RevisionCount, Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.conditions import STALLED
from gitkruise.model.workloads.labels import DAEMONSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.progress.cloneset import commits
from gitkruise.planner.progress.failing_pods import (
    broken,
    cannot_start,
    failures,
    refusals,
    template_images,
)
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.intstr import UnreadableAmount, resolve

# Conditions of an Advanced StatefulSet that nothing gets past without a change.
_BROKEN: Final = frozenset({"FailedUpdatePod", STALLED})
_REFUSED: Final = "FailedCreatePod"  # its controller tries again
_RECREATE: Final = "ReCreate"
_ROLLING: Final = ("spec", "updateStrategy", "rollingUpdate")


def min_ready_s(raw: Obj) -> int:
    """The minReadySeconds of a workload; an Advanced StatefulSet has it below rollingUpdate."""
    least = get(raw, "spec", "minReadySeconds") or get(raw, *_ROLLING, "minReadySeconds")
    return int(least or 0)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Counted:
    """One workload with its pods, counted at one instant. `update` is its newest revision.

    `strays` pods of a DaemonSet run on nodes that would get none now: tainted since, for example.
    Its controller alone knows which those are, and leaves them out of its status.
    """

    raw: Obj
    wanted: int
    partition: int
    update: str
    current: str
    active: tuple[PodFacts, ...]
    now: datetime
    commits: Mapping[str, str]
    strays: int = 0

    @property
    def kind(self) -> str:
        return str(self.raw["kind"])

    @property
    def updated(self) -> tuple[PodFacts, ...]:
        return tuple(p for p in self.active if p.on_revision(self.update))

    @property
    def new(self) -> int:
        return self.as_reported(len(self.updated), "updatedNumberScheduled")

    def serving(self, pods: Sequence[PodFacts]) -> int:
        """Return the number of available pods among `pods`."""
        return self.as_reported(sum(map(self.available, pods)), "numberAvailable")

    def as_reported(self, counted: int, field: str) -> int:
        """Return what was `counted`, at most what a DaemonSet with strays reports in `field`."""
        if not self.strays:
            return counted
        return min(counted, int(get(self.raw, "status", field, default=0)))

    @property
    def settled(self) -> bool:
        """Return whether all pods run that should, and no others but strays."""
        return self.wanted <= len(self.active) <= self.wanted + self.strays

    def available(self, pod: PodFacts) -> bool:
        return pod.available(self.now, min_ready_s=min_ready_s(self.raw))

    @property
    def paused(self) -> bool:
        return bool(get(self.raw, *_ROLLING, "paused"))

    @property
    def broken(self) -> str:
        """Return what its controller reports to be wrong with the spec or its writes."""
        for condition in get(self.raw, "status", "conditions", default=()):
            if condition.get("type") in _BROKEN and condition.get("status") == "True":
                return str(condition.get("message") or condition["type"])
        return ""

    @property
    def on_delete(self) -> bool:
        return bool(get(self.raw, "spec", "updateStrategy", "type") == "OnDelete")

    @property
    def asked(self) -> int:
        """Pods that should run the newest revision now; more may, and stay so."""
        updated = min(self.new, self.wanted)
        return updated if self.on_delete else max(updated, self.wanted - self.partition)

    @property
    def seen(self) -> bool:
        observed = int(get(self.raw, "status", "observedGeneration", default=0))
        return observed >= int(self.raw["metadata"].get("generation") or 0) and bool(self.update)


def observe_stateful_set(
    raw: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
) -> Rollout:
    """The rollout of the StatefulSet `raw`: its status names the requested revision."""
    wanted = int(get(raw, "spec", "replicas", default=1))
    status, partition = raw.get("status") or {}, get(raw, *_ROLLING, "partition", default=0)
    counted = _Counted(
        raw=raw,
        wanted=wanted,
        partition=min(int(partition), wanted),
        update=str(status.get("updateRevision") or ""),
        current=str(status.get("currentRevision") or ""),
        active=tuple(p for p in pods if p.active),
        now=now,
        commits=commits(revisions),
    )
    return _rollout(counted, str(partition))


def observe_daemon_set(
    raw: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
) -> Rollout:
    """The rollout of the DaemonSet `raw`: its newest ControllerRevision is the requested one."""
    newest = max(revisions, key=lambda r: int(r.get("revision") or 0), default=None)
    update = str(newest["metadata"]["name"]) if newest else ""
    active = tuple(p for p in pods if p.active)
    old = [p.short_revision for p in active if p.revision and not p.on_revision(update)]
    counted = _Counted(
        raw=raw,
        wanted=int(get(raw, "status", "desiredNumberScheduled", default=0)),
        strays=int(get(raw, "status", "numberMisscheduled", default=0)),
        partition=0,
        update=update,
        current=f"{raw['metadata']['name']}-{max(set(old), key=old.count)}" if old else update,
        active=active,
        now=now,
        commits=commits(revisions),
    )
    return _rollout(counted, "0")


def _rollout(c: _Counted, partition: str) -> Rollout:
    failing, hindered = failures(c.updated, template_images(c.raw["spec"]["template"]))
    state, message = _judge(c, (*failing, *hindered), partition)
    refused = refusals(c.raw, _REFUSED) if state is State.ROLLING and c.seen else ""
    return Rollout(
        key=key_of(c.raw),
        state=state,
        message=f"{message}; {refused}" if refused else message,
        replicas=c.wanted,
        partition=partition,
        kept=0 if c.on_delete else c.wanted - c.asked,
        asked=c.asked,
        updated=c.new,
        updated_ready=sum(p.update_ready(c.now) for p in c.updated),
        ready=c.as_reported(sum(p.update_ready(c.now) for p in c.active), "numberReady"),
        total=len(c.active),
        available=c.serving(c.active),
        budget=_budget(c),
        in_place=get(c.raw, *_ROLLING, "podUpdatePolicy", default=_RECREATE) != _RECREATE,
        update_revision=c.update,
        current_revision=c.current,
        revisions=tuple(_revisions(c)),
        failing=failing,
        hindered=hindered,
        refused=refused,
        generation_seen=c.seen,
        members=frozenset(p.uid for p in c.active if p.uid),
        behind=frozenset(p.uid for p in c.active if p.uid and not p.on_revision(c.update)),
        unready=frozenset(p.uid for p in c.active if p.uid and not p.update_ready(c.now)),
    )


def _judge(c: _Counted, down: tuple[tuple[str, str], ...], partition: str) -> tuple[State, str]:
    if not c.seen:
        return State.ROLLING, UNSEEN
    new, short = c.new, c.update.rpartition("-")[2]
    available = c.serving(c.updated)
    share = f"{new} of {c.wanted} on {short}"
    if stuck := _stuck(c, down, new - available):
        return State.STUCK, stuck
    old = len(c.active) - len(c.updated)
    complete = available >= c.asked and c.settled and (not old or not c.strays or c.on_delete)
    if c.paused and old and not (complete and c.on_delete):
        return State.PAUSED, f"{share}, paused"
    if complete and old:
        held = f"held by partition {partition}"
        why = "the others are updated when they are deleted" if c.on_delete else held
        return State.HELD, f"{share}, {why}"
    if complete and c.serving(c.active) >= c.wanted:
        return State.DONE, share
    return State.ROLLING, f"{available} of {c.asked} asked are updated and available"


def _stuck(c: _Counted, down: tuple[tuple[str, str], ...], waiting: int) -> str:
    """Return what keeps every pod that is updated and not available from becoming so, or other
    pods from being updated."""
    if down and len(down) >= waiting:
        return cannot_start(down, f"{c.serving(c.active)} of {c.wanted} keep serving")
    if left := unreplaced(c.raw, c.active, c.update):
        name, why = left
        cause = f"{name} has an earlier template and cannot start: {why}"
        return f"{cause}; it is not replaced before it is deleted"
    return c.broken


def unreplaced(raw: Obj, pods: Sequence[PodFacts], update: str) -> tuple[str, str] | None:
    """Return (pod, why) of a pod that its StatefulSet waits for instead of replacing it.

    In order (OrderedReady) a pod of an earlier template that cannot start is never replaced, also
    by a template that mends it: the next pod is looked at only when all before it are ready.
    """
    policy = get(raw, "spec", "podManagementPolicy", default="OrderedReady")
    strategy = get(raw, "spec", "updateStrategy", "type", default="RollingUpdate")
    if raw.get("kind") != "StatefulSet" or (policy, strategy) != ("OrderedReady", "RollingUpdate"):
        return None
    first = int(get(raw, *_ROLLING, "partition", default=0))
    first += int(get(raw, "spec", "ordinals", "start", default=0))
    for pod in pods:
        if pod.active and not pod.on_revision(update) and int(pod.name.rpartition("-")[2]) >= first:
            why = next(iter(broken(pod).values()), "")
            if why:
                return pod.name, why
    return None


def _budget(c: _Counted) -> int:
    """maxUnavailable: 1 unless it says otherwise; a DaemonSet rounds a share up, others down."""
    written: Any = get(c.raw, *_ROLLING, "maxUnavailable", default=1)
    daemon = c.kind == DAEMONSET.kind
    try:
        found = resolve(written, c.wanted, round_up=daemon)
    except UnreadableAmount:
        return 1
    surge = daemon and get(c.raw, *_ROLLING, "maxSurge", default=0) not in {0, "0", "0%"}
    return found if found or surge else 1


def _revisions(c: _Counted) -> Iterator[RevisionCount]:
    """Yield the newest revision, then the others that have pods."""
    update, current = (name.rpartition("-")[2] for name in (c.update, c.current))
    carried = sorted({p.short_revision for p in c.active if p.revision})
    for short in dict.fromkeys([*([update] if update else []), *carried]):
        pods = [p for p in c.active if p.short_revision == short]
        role = "update" if short == update else "current" if short == current else "other"
        yield RevisionCount(
            hash=short,
            role=role,
            pods=len(pods),
            available=sum(map(c.available, pods)),
            commit=c.commits.get(short, ""),
            images=tuple((k.name, k.image) for k in pods[0].containers) if pods else (),
        )
