"""Progress of a Deployment against its spec: counts by ReplicaSet, and one state.

The counterpart for CloneSets is `planner.progress.cloneset`: the same words for the same states.
Rules CAN-30 to CAN-32 of docs/behaviour/deployment-canary.md.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from gitkruise.model.gitops.record import UNSEEN, RevisionCount, Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.canary import CanaryPause
from gitkruise.model.planning.canary_lock import lock_of, unlocked
from gitkruise.model.workloads.conditions import find
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.builtin import replicasets as rs
from gitkruise.planner.builtin.deployment import DeploymentSets
from gitkruise.planner.builtin.replicasets import SetFacts, set_facts
from gitkruise.planner.progress.failing_pods import (
    cannot_start,
    failures,
    refusals,
    template_images,
)
from gitkruise.planner.sync.annotations import COMMIT
from gitkruise.wire.primitives.names import Obj, controller_of, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import parse_time

_LATE: Final = "ProgressDeadlineExceeded"


def observe_deployment_rollout(
    raw: Obj, pods: Sequence[PodFacts], replica_sets: Sequence[Obj], now: datetime
) -> Rollout:
    """The rollout of the Deployment `raw`; `pods` and `replica_sets` are its own.

    Counts come from the pods themselves. `asked` is the size at which its canary pauses the new
    ReplicaSet, else all pods; until the controller has seen the newest spec the state is Rolling.
    """
    facts = _Facts(raw, pods, replica_sets, now)
    state, message = _judge(facts)
    lacking = state is State.ROLLING or (state is State.STUCK and facts.late and not facts.down)
    refused = refusals(raw, "ReplicaFailure") if lacking and facts.seen else ""
    current = facts.current
    return Rollout(
        key=key_of(raw),
        state=state,
        message=f"{message}; {refused}" if refused else message,
        replicas=facts.wanted,
        partition="0",
        kept=facts.wanted - facts.asked,
        asked=facts.asked,
        updated=len(facts.updated),
        updated_ready=sum(p.update_ready(now) for p in facts.updated),
        ready=sum(p.update_ready(now) for p in facts.active),
        total=len(facts.active),
        available=sum(facts.available(p) for p in facts.active),
        budget=facts.wanted if facts.recreate else facts.limits.unavailable,
        in_place=False,
        update_revision=facts.new.name if facts.new else "",
        current_revision=current.name if current else "",
        revisions=tuple(_revisions(facts)),
        failing=facts.failing,
        hindered=facts.hindered,
        refused=refused,
        generation_seen=facts.seen,
        members=frozenset(p.uid for p in facts.active if p.uid),
        behind=frozenset(p.uid for p in facts.active if p.uid and not facts.runs_new(p)),
        unready=frozenset(p.uid for p in facts.active if p.uid and not p.update_ready(now)),
        canary=facts.canary_text,
    )


class _Facts(DeploymentSets):
    """One Deployment with its ReplicaSets and pods, counted once."""

    def __init__(
        self, raw: Obj, pods: Sequence[PodFacts], replica_sets: Sequence[Obj], now: datetime
    ) -> None:
        uid = raw["metadata"]["uid"]
        owned = [one for one in replica_sets if (controller_of(one) or {}).get("uid") == uid]
        super().__init__(unlocked(raw), rs.oldest_first([set_facts(one) for one in owned]))
        self.lock, self.now = lock_of(raw), now
        self.active = tuple(p for p in pods if p.active)
        self.updated = self.pods_of(self.new)
        self.new_available = sum(self.available(p) for p in self.updated)
        own = template_images(self.spec.get("template") or {})
        self.failing, self.hindered = failures(self.updated, own)
        observed = int(get(raw, "status", "observedGeneration", default=0))
        self.seen = observed >= int(raw["metadata"].get("generation") or 0)

    def pods_of(self, one: SetFacts | None) -> tuple[PodFacts, ...]:
        uid = one.raw["metadata"]["uid"] if one else None
        return tuple(p for p in self.active if p.controller_uid == uid)

    def runs_new(self, pod: PodFacts) -> bool:
        return self.new is not None and pod.controller_uid == self.new.raw["metadata"]["uid"]

    def available(self, pod: PodFacts) -> bool:
        return pod.available(self.now, min_ready_s=int(self.spec.get("minReadySeconds") or 0))

    @property
    def paused(self) -> bool:
        return bool(self.spec.get("paused"))

    @property
    def pause(self) -> CanaryPause | None:
        """The pause of a canary that is in force."""
        return self.canary.pause if self.paused else None

    @property
    def down(self) -> tuple[tuple[str, str], ...]:
        return (*self.failing, *self.hindered)

    @property
    def progressing(self) -> Obj:
        return find(get(self.raw, "status", "conditions", default=()), "Progressing") or {}

    @property
    def late(self) -> bool:
        return self.progressing.get("reason") == _LATE or self.overdue

    @property
    def overdue(self) -> bool:
        """Return whether the last step to a canary was too long ago: the other controller, which
        gitkruise leads there, watches no deadline then."""
        if self.lock is None or not self.lock.begun or self.paused:
            return False
        since = parse_time(self.lock.since)
        return since is not None and self.now > since + timedelta(seconds=self.lock.deadline_s)

    @property
    def standing(self) -> bool:
        """Return whether that pause is the answer to the present canary and template.

        A user may change them, and leave the Deployment paused (CAN-72, CAN-74).
        """
        pause, canary = self.pause, self.canary.canary
        if pause is None or self.new is None or canary is None:
            return False
        return (pause.canary, pause.value) == (self.new.hash, canary.text)

    @property
    def asked(self) -> int:
        """Pods that should run the present template now."""
        size = self.new.size.replicas if self.new else 0
        if self.pause is not None:
            return min(size, self.wanted)
        limit = self.canary.limit
        return self.wanted if limit is None else min(self.wanted, max(limit, size))

    @property
    def canary_text(self) -> str:
        if self.pause is not None:
            return self.pause.value
        gated = self.canary.canary is not None and self.canary.limit is not None
        return self.canary.canary.text if gated and self.canary.canary else ""

    @property
    def current(self) -> SetFacts | None:
        """The ReplicaSet before: the old one with most pods, or the new one once it is alone."""
        running = [one for one in self.olds if one.size.replicas or self.pods_of(one)]
        return max(running, key=lambda one: (one.size.replicas, one.revision), default=self.new)


def _judge(f: _Facts) -> tuple[State, str]:
    if not f.seen:
        return State.ROLLING, UNSEEN
    if stuck := _stuck(f):
        return State.STUCK, stuck
    old = len(f.active) - len(f.updated)
    named = f.new.hash if f.new else "the newest template"
    share = f"{len(f.updated)} of {f.wanted} on {named}"
    complete = f.new_available >= f.asked and len(f.active) == f.wanted
    if f.pause is not None and f.standing and complete:
        return State.HELD, f"{share}, held by canary {f.pause.value}"
    if f.paused and not f.standing and (old or f.new is None):
        return State.PAUSED, f"{share}, paused"
    if complete and f.new is not None and not old and all(map(f.available, f.active)):
        return State.DONE, share
    return State.ROLLING, f"{f.new_available} of {f.asked} asked are updated and available"


def _stuck(f: _Facts) -> str:
    if f.problem:
        return f.problem
    if f.down and (f.late or len(f.down) >= len(f.updated) - f.new_available):
        serving = sum(map(f.available, f.active))
        return cannot_start(f.down, f"{serving} of {f.wanted} keep serving")
    if f.late:
        return str(f.progressing.get("message") or "") or "no progress within the deadline"
    return ""


def _revisions(f: _Facts) -> Iterator[RevisionCount]:
    """Yield the new ReplicaSet, then the others that have pods, newest first."""
    current = f.current
    for one in ([f.new] if f.new else []) + sorted(f.olds, key=lambda o: -o.revision):
        pods = f.pods_of(one)
        if not pods and one is not f.new:
            continue
        role = "update" if one is f.new else "current" if one is current else "other"
        yield RevisionCount(
            hash=one.hash,
            role=role,
            pods=len(pods),
            available=sum(map(f.available, pods)),
            commit=str(one.notes.get(COMMIT) or ""),
            images=tuple((c.name, c.image) for c in pods[0].containers) if pods else (),
        )
