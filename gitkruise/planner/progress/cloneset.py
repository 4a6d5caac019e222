"""Progress of a CloneSet against its spec: counts by revision, and one state."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from gitkruise.model.gitops.record import UNSEEN, RevisionCount, Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.amounts import Amounts, resolve_amounts
from gitkruise.model.workloads.cloneset import CloneSetFacts, Policy, cloneset_facts
from gitkruise.model.workloads.conditions import FAILED_SCALE, FAILED_UPDATE, STALLED
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.progress.failing_pods import (
    cannot_start,
    failures,
    refusals,
    template_images,
)
from gitkruise.printable import many
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

_LATE: Final = "ProgressDeadlineExceeded"
SOURCE_COMMIT: Final = "gitkruise.io/commit"  # copied by the engine from the object to its revision


def observe_rollout(
    raw: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
) -> Rollout:
    """The rollout of the CloneSet `raw` (either version); `pods` and `revisions` are its own.

    Counts come from the pods themselves, revisions' names from the controller's status; until
    the controller has seen the newest spec the state is Rolling.
    """
    owner = cloneset_facts(raw)
    active = tuple(p for p in pods if p.active)
    update = str(owner.status.get("updateRevision") or "")
    new = tuple(p for p in active if p.on_revision(update))
    amounts = resolve_amounts(owner)
    asked = amounts.asked(len(new))
    counts = _PodCounts(owner, active, new, now)
    state, message = _judge(owner, counts, amounts, update)
    late = state is State.STUCK and _is_late(owner) and not (counts.failing or counts.hindered)
    refused = ""
    if counts.seen and (state is State.ROLLING or late):
        refused = refusals(raw, FAILED_SCALE, FAILED_UPDATE)
    return Rollout(
        key=owner.key,
        state=state,
        message=f"{message}; {refused}" if refused else message,
        replicas=owner.replicas,
        partition=owner.update.partition.text,
        kept=owner.replicas - asked,
        asked=asked,
        updated=len(new),
        updated_ready=sum(p.update_ready(now) for p in new),
        ready=sum(p.update_ready(now) for p in active),
        total=len(active),
        available=sum(counts.available(p) for p in active),
        budget=amounts.unavailable,
        in_place=owner.update.policy is not Policy.RECREATE,
        update_revision=update,
        current_revision=str(owner.status.get("currentRevision") or ""),
        revisions=_revisions(owner, counts, revisions),
        failing=counts.failing,
        hindered=counts.hindered,
        refused=refused,
        generation_seen=counts.seen,
        members=frozenset(p.uid for p in active if p.uid),
        behind=frozenset(p.uid for p in active if p.uid and not p.on_revision(update)),
        unready=frozenset(p.uid for p in active if p.uid and not p.update_ready(now)),
    )


class _PodCounts:
    """Pods of one CloneSet, counted once."""

    def __init__(
        self,
        owner: CloneSetFacts,
        active: tuple[PodFacts, ...],
        new: tuple[PodFacts, ...],
        now: datetime,
    ) -> None:
        self.now, self.min_ready_s = now, owner.min_ready_s
        self.active, self.new = active, new
        self.new_available = sum(self.available(p) for p in new)
        self.failing, self.hindered = failures(new, template_images(owner.template))
        self.seen = int(owner.status.get("observedGeneration") or 0) >= owner.generation

    def available(self, pod: PodFacts) -> bool:
        return pod.available(self.now, min_ready_s=self.min_ready_s)


def _judge(owner: CloneSetFacts, c: _PodCounts, amounts: Amounts, update: str) -> tuple[State, str]:
    asked, short = amounts.asked(len(c.new)), update.rpartition("-")[2]
    old = len(c.active) - len(c.new)
    share = f"{len(c.new)} of {owner.replicas} on {short}"
    if not c.seen or not update:
        return State.ROLLING, UNSEEN
    stuck = "; ".join(amounts.problem_texts) or _stuck(owner, c)
    if stuck:
        return State.STUCK, stuck
    complete = c.new_available >= asked and len(c.active) == owner.replicas
    if owner.update.paused and old and not complete:
        return State.PAUSED, f"{share}, paused"
    if complete and old:
        return _standing(owner, old, share)
    if complete and all(c.available(p) for p in c.active):
        return State.DONE, f"{len(c.new)} of {owner.replicas} on {short}"
    return State.ROLLING, _ahead(owner, c, asked)


def _ahead(owner: CloneSetFacts, c: _PodCounts, asked: int) -> str:
    surplus = len(c.active) - owner.replicas
    if surplus > 0 and c.new_available >= asked:
        return f"{many(surplus)} more than {owner.replicas} to delete"
    return f"{c.new_available} of {asked} asked are updated and available"


def _standing(owner: CloneSetFacts, old: int, share: str) -> tuple[State, str]:
    """Nothing more to do while pods of another revision run: held, or left behind."""
    status = owner.status
    if status.get("currentRevision") == status.get("updateRevision"):
        return State.STUCK, (
            f"AbandonedRevisionRunning: {old} pods run a revision that is no longer asked for, "
            f"and partition {owner.update.partition.text} keeps them there"
        )
    if owner.update.on_delete:
        return State.HELD, f"{share}, the others are updated when they are deleted"
    if owner.update.paused:
        return State.PAUSED, f"{share}, paused"
    return State.HELD, f"{share}, held by partition {owner.update.partition.text}"


def _stuck(owner: CloneSetFacts, c: _PodCounts) -> str:
    for condition in owner.status.get("conditions") or ():
        if condition.get("reason") == _LATE:
            return str(condition.get("message") or "no progress within the deadline")
        if condition.get("type") == STALLED and condition.get("status") == "True":
            return str(condition.get("message") or "its writes make no progress")
    waiting = len(c.new) - c.new_available
    down = (*c.failing, *c.hindered)
    if down and len(down) >= waiting:
        serving = sum(c.available(p) for p in c.active)
        return cannot_start(down, f"{serving} of {owner.replicas} keep serving")
    return ""


def _is_late(owner: CloneSetFacts) -> bool:
    conditions = owner.status.get("conditions") or ()
    return any(one.get("reason") == _LATE for one in conditions)


def commits(revisions: Sequence[Obj]) -> Mapping[str, str]:
    """Return by hash the commits that ControllerRevisions were created at, as far as known: the
    controllers copy the annotations of their workload."""
    return {
        str(raw["metadata"]["name"]).rpartition("-")[2]: str(
            get(raw, "metadata", "annotations", SOURCE_COMMIT, default="")
        )
        for raw in revisions
    }


def _revisions(
    owner: CloneSetFacts, c: _PodCounts, revisions: Sequence[Obj]
) -> tuple[RevisionCount, ...]:
    update = str(owner.status.get("updateRevision") or "").rpartition("-")[2]
    current = str(owner.status.get("currentRevision") or "").rpartition("-")[2]
    known = commits(revisions)
    hashes = dict.fromkeys([h for h in (update, current) if h])
    hashes.update(dict.fromkeys(sorted({p.short_revision for p in c.active if p.revision})))
    out = []
    for short in hashes:
        pods = [p for p in c.active if p.short_revision == short]
        role = "update" if short == update else "current" if short == current else "other"
        out.append(
            RevisionCount(
                hash=short,
                role=role,
                pods=len(pods),
                available=sum(c.available(p) for p in pods),
                commit=known.get(short, ""),
                images=tuple((k.name, k.image) for k in pods[0].containers) if pods else (),
            )
        )
    return tuple(out)
