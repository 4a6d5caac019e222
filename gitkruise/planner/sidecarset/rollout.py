"""Where a SidecarSet stands against what is asked of it: counts by revision, and one state."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gitkruise.model.pod import PodFacts
from gitkruise.model.record import RevisionCount, Rollout
from gitkruise.model.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.model.states import State
from gitkruise.planner.broken import broken
from gitkruise.planner.rollouts import SOURCE_COMMIT
from gitkruise.planner.sidecarset.fleet import Judged, Yardstick, image_of
from gitkruise.planner.sidecarset.match import matched
from gitkruise.wire.intstr import partition_count, resolve
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The matched pods of one SidecarSet, sorted by what becomes of them.

    `kept` is how many the partition holds of those that could change, `left_out` those that the
    update selector does not match, `barred` those that differ in more than images.
    """

    pods: tuple[Judged, ...]
    updated: tuple[Judged, ...]
    up: int  # updated ones that are ready with it
    barred: tuple[Judged, ...]
    left_out: int
    kept: int

    @property
    def asked(self) -> int:
        """Pods that should be updated, and can be."""
        return len(self.pods) - len(self.barred) - self.left_out - self.kept


def stand(owner: SidecarSetFacts, pods: Sequence[PodFacts]) -> Standing:
    """`pods` may be any: those that are not matched do not count."""
    yardstick = Yardstick(owner)
    judged = tuple([yardstick.judge(pod) for pod in matched(owner, pods)])
    updated = tuple([j for j in judged if j.updated])
    old = [j for j in judged if not j.updated]
    chosen = [j for j in old if owner.update.selects(j.pod.labels)]
    barred = tuple([j for j in chosen if not j.fits])
    movable = len(chosen) - len(barred)
    return Standing(
        pods=judged,
        updated=updated,
        up=sum(j.up for j in updated),
        barred=barred,
        left_out=len(old) - len(chosen),
        kept=min(partition_count(owner.update.partition, len(judged)), movable),
    )


def observe_sidecars(
    raw: Obj, pods: Sequence[PodFacts], revisions: Sequence[Obj], now: datetime
) -> Rollout:
    """The rollout of the SidecarSet `raw` (either version) over the matched ones of `pods`.

    Until the controller has seen the newest spec the state is Waiting.
    """
    del now
    owner = sidecarset_facts(raw)
    it = stand(owner, pods)
    failing = tuple((j.pod.name, why) for j in it.updated if (why := broken(j.pod)))
    state, message = _judge(owner, it, failing)
    partition = owner.update.partition
    return Rollout(
        key=owner.key,
        state=state,
        message=message,
        replicas=len(it.pods),
        partition="0" if partition is None else str(partition),
        kept=it.kept,
        asked=it.asked,
        updated=len(it.updated),
        updated_ready=it.up,
        ready=sum(j.up for j in it.pods),
        total=len(it.pods),
        available=sum(j.serving for j in it.pods),
        budget=budget(owner, len(it.pods)),
        in_place=True,
        update_revision=owner.latest_revision,
        current_revision=_current(owner, it),
        revisions=_revisions(owner, it, revisions),
        failing=failing,
        generation_seen=_seen(owner),
    )


def budget(owner: SidecarSetFacts, total: int) -> int:
    """Pods that may be down at once: one if nothing is said, none for what nobody can read."""
    value = owner.update.max_unavailable
    try:
        return 1 if value is None else resolve(value, total, round_up=True)
    except ValueError:
        return 0


def _seen(owner: SidecarSetFacts) -> bool:
    return int(owner.status.get("observedGeneration") or 0) >= owner.generation


def _judge(
    owner: SidecarSetFacts, it: Standing, failing: Sequence[tuple[str, str]]
) -> tuple[State, str]:
    short = owner.latest_revision.rpartition("-")[2]
    share = f"{len(it.updated)} of {len(it.pods)} pods on {short}"
    old = len(it.pods) - len(it.updated)
    if not _seen(owner) or not short:
        return State.WAITING, "the controller has not seen the newest spec yet"
    if owner.update.inject_only:
        return State.DONE, f"{share}, running pods keep what they have"
    if failing and len(failing) >= len(it.updated) - it.up:
        pod, why = failing[0]
        more = f" and {len(failing) - 1} more" if len(failing) > 1 else ""
        serving = sum(j.serving for j in it.pods)
        return State.STUCK, f"{pod}{more} cannot start: {why}; {serving} of {len(it.pods)} serve"
    if owner.update.paused and old and it.up < it.asked:
        return State.PAUSED, f"{share}, paused"
    if it.up < it.asked:
        return State.ROLLING, f"{it.up} of {it.asked} asked run it and are ready"
    return _standing(owner, it, share)


def _standing(owner: SidecarSetFacts, it: Standing, share: str) -> tuple[State, str]:
    """Nothing more to do: complete, or held by what git says or by what pods cannot change."""
    if it.kept:
        return State.HELD, f"{share}, held by partition {owner.update.partition}"
    if it.barred:
        return State.HELD, f"{share}, {len(it.barred)} differ in more than images until replaced"
    if it.left_out:
        return State.HELD, f"{share}, the update selector leaves {it.left_out} out"
    return State.DONE, share


def _current(owner: SidecarSetFacts, it: Standing) -> str:
    """The revision most of the pods that are not updated carry; the latest one without such."""
    yardstick = Yardstick(owner)
    carried = [yardstick.mark(j.pod).revision for j in it.pods if not j.updated]
    return max(sorted(set(carried)), key=carried.count, default="") or owner.latest_revision


def _revisions(
    owner: SidecarSetFacts, it: Standing, revisions: Sequence[Obj]
) -> tuple[RevisionCount, ...]:
    """Counts by the revision pods carry, the latest one first."""
    yardstick = Yardstick(owner)
    by_name = {str(r["metadata"]["name"]): r for r in revisions}
    groups: dict[str, list[Judged]] = {owner.latest_revision: []} if owner.latest_revision else {}
    for judged in it.pods:
        carried = owner.latest_revision if judged.updated else yardstick.mark(judged.pod).revision
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
