"""Progress of a SidecarSet against its spec: counts by revision, and one state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.gitops.record import UNSEEN, RevisionCount, Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.amounts import Amounts, resolve_sidecar_amounts
from gitkruise.model.workloads.conditions import STALLED_NOTE
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.planner.progress.cloneset import SOURCE_COMMIT
from gitkruise.planner.progress.failing_pods import cannot_start, failure
from gitkruise.planner.sidecarset.matching import matched
from gitkruise.planner.sidecarset.pod_view import MatchCriteria, PodState, image_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get


@dataclass(frozen=True, slots=True, kw_only=True)
class ProgressCounts:
    """The matched pods of one SidecarSet, sorted by what becomes of them.

    `kept` is how many the partition holds of those that could change, `left_out` those that the
    update selector does not match, `barred` those that differ in more than images.
    """

    pods: tuple[PodState, ...]
    updated: tuple[PodState, ...]
    up: int  # updated ones that are ready with it
    barred: tuple[PodState, ...]
    left_out: int
    kept: int
    amounts: Amounts

    @property
    def asked(self) -> int:
        """Pods that should be updated, and can be."""
        return len(self.pods) - len(self.barred) - self.left_out - self.kept


def stand(owner: SidecarSetFacts, pods: Sequence[PodFacts]) -> ProgressCounts:
    """`pods` may be any: those that are not matched do not count."""
    criteria = MatchCriteria(owner)
    judged = tuple([criteria.judge(pod) for pod in matched(owner, pods)])
    updated = tuple([j for j in judged if j.updated])
    old = [j for j in judged if not j.updated]
    chosen = [j for j in old if owner.update.selects(j.pod.labels)]
    barred = tuple([j for j in chosen if not j.fits])
    movable = len(chosen) - len(barred)
    amounts = resolve_sidecar_amounts(owner, len(judged))
    return ProgressCounts(
        pods=judged,
        updated=updated,
        up=sum(j.up for j in updated),
        barred=barred,
        left_out=len(old) - len(chosen),
        kept=min(amounts.partition, movable),
        amounts=amounts,
    )


def observe_sidecars(
    raw: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
) -> Rollout:
    """The rollout of the SidecarSet `raw` (either version) over the matched ones of `pods`.

    Until the controller has seen the newest spec the state is Rolling.
    """
    del now
    owner = sidecarset_facts(raw)
    it = stand(owner, pods)
    own = MatchCriteria(owner).names | {sidecar.name for sidecar in owner.init_containers}
    found = [(j, failure(j.pod, own)) for j in it.pods]
    failing = tuple((j.pod.name, why.own) for j, why in found if why.own and j.updated)
    hindered = [(j, why.foreign) for j, why in found if why.foreign and not why.own]
    stalled = get(raw, "metadata", "annotations", STALLED_NOTE, default="")
    through = sum(j.updated and j.consistent and j.rested for j, _ in hindered)
    state, message = _judge(owner, it, stalled or _failing(it, failing), through)
    if hindered and state is not State.STUCK:
        message += f"; {hindered[0][0].pod.name} cannot start: {hindered[0][1]}"
    return Rollout(
        key=owner.key,
        state=state,
        message=message,
        replicas=len(it.pods),
        partition=owner.update.partition.text,
        kept=it.kept,
        asked=len(it.updated) if owner.update.inject_only else it.asked,
        updated=len(it.updated),
        updated_ready=it.up,
        ready=sum(j.up for j in it.pods),
        total=len(it.pods),
        available=sum(j.serving for j in it.pods),
        budget=it.amounts.unavailable,
        in_place=True,
        update_revision=owner.latest_revision,
        current_revision=_current(owner, it),
        revisions=_revisions(owner, it, revisions),
        failing=failing,
        hindered=tuple((j.pod.name, why) for j, why in hindered),
        generation_seen=_seen(owner),
        members=frozenset(j.pod.uid for j in it.pods if j.pod.uid),
        behind=frozenset(j.pod.uid for j in it.pods if j.pod.uid and not j.updated),
        unready=frozenset(j.pod.uid for j in it.pods if j.pod.uid and not j.up),
    )


def _seen(owner: SidecarSetFacts) -> bool:
    return int(owner.status.get("observedGeneration") or 0) >= owner.generation


def _judge(
    owner: SidecarSetFacts, it: ProgressCounts, stuck: str, through: int
) -> tuple[State, str]:
    """`through` is how many pods run it and cannot start for a container of another object."""
    short = owner.latest_revision.rpartition("-")[2]
    share = f"{len(it.updated)} of {len(it.pods)} pods on {short}"
    old = len(it.pods) - len(it.updated)
    if not _seen(owner) or not short:
        return State.ROLLING, UNSEEN
    if stuck := "; ".join(it.amounts.problem_texts) or stuck:
        return State.STUCK, stuck
    if owner.update.inject_only:
        return State.DONE, f"{share}, running pods keep what they have"
    done = it.up + through >= it.asked
    if owner.update.paused and old and (it.kept or not done):
        return State.PAUSED, f"{share}, paused"
    if not done:
        return State.ROLLING, f"{it.up} of {it.asked} asked run it and are ready"
    return _standing(owner, it, share)


def _failing(it: ProgressCounts, failing: Sequence[tuple[str, str]]) -> str:
    """Updated pods that cannot start, if no other pod is being updated."""
    if not failing or len(failing) < len(it.updated) - it.up:
        return ""
    serving = sum(j.serving for j in it.pods)
    return cannot_start(failing, f"{serving} of {len(it.pods)} serve")


def _standing(owner: SidecarSetFacts, it: ProgressCounts, share: str) -> tuple[State, str]:
    """Nothing more to do: complete, or held by what git says or by what pods cannot change."""
    if it.kept:
        return State.HELD, f"{share}, held by partition {owner.update.partition.text}"
    if it.barred:
        return State.HELD, f"{share}, {len(it.barred)} differ in more than images until replaced"
    if it.left_out:
        return State.HELD, f"{share}, the update selector leaves {it.left_out} out"
    return State.DONE, share


def _current(owner: SidecarSetFacts, it: ProgressCounts) -> str:
    """The revision most of the pods that are not updated carry; the latest one without such."""
    criteria = MatchCriteria(owner)
    carried = [criteria.mark(j.pod).revision for j in it.pods if not j.updated]
    return max(sorted(set(carried)), key=carried.count, default="") or owner.latest_revision


def _revisions(
    owner: SidecarSetFacts, it: ProgressCounts, revisions: Sequence[Obj]
) -> tuple[RevisionCount, ...]:
    """Counts by the revision pods carry, the latest one first."""
    criteria = MatchCriteria(owner)
    by_name = {str(r["metadata"]["name"]): r for r in revisions}
    groups: dict[str, list[PodState]] = {owner.latest_revision: []} if owner.latest_revision else {}
    for judged in it.pods:
        carried = owner.latest_revision if judged.updated else criteria.mark(judged.pod).revision
        groups.setdefault(carried, []).append(judged)
    names = [name for sidecar in owner.containers for name in sidecar.names]
    return tuple(
        RevisionCount(
            hash=name.rpartition("-")[2],
            role="update" if name == owner.latest_revision else "current",
            pods=len(group),
            available=sum(j.up for j in group),
            commit=get(by_name.get(name), "metadata", "annotations", SOURCE_COMMIT, default=""),
            images=tuple((n, image_of(group[0].pod, n)) for n in names) if group else (),
        )
        for name, group in groups.items()
    )
