"""Forecast of a SidecarSet: pods that update in place, pods that cannot, sidecars of new pods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.forecast import HOT, STUCK, PodMove, RolloutForecast, Sidecars
from gitkruise.model.planning.plan import Hold
from gitkruise.model.planning.trace import IN_PLACE, SIDECAR, Line
from gitkruise.model.workloads.revision import Revision, revision_of
from gitkruise.model.workloads.sidecarset import ALWAYS, SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_revision import newest_of_version, restored
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.sidecarset.pod_view import judge
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.simulation.run import SimulatedRollout, in_steps

_HELD_BY: Final = {State.PAUSED: "Paused", State.ROLLING: STUCK, State.STUCK: STUCK}


def predict_sidecarset(played: SimulatedRollout) -> RolloutForecast:
    """Return the steps over the running pods and the state at the end."""
    after = played.after
    owner, kind = sidecarset_facts(after), ROLLOUTS[played.key.group_kind]
    world = played.simulation.world
    revisions = kind.revisions(world, after)
    rollout = kind.judge(after, kind.pods(world, after), revisions, played.trace.end)
    held = tuple(sorted(played.simulation.held(played.key).items()))
    lines = [line for line in played.trace.lines if line.workload == str(played.key)]
    sidecars = _sidecars(owner, [revision_of(r) for r in revisions], held)
    barred = {pod for pod, _ in sidecars.barred}  # a new empty image is no update of theirs
    changes = _moves(lines, owner)
    moves = [(at, move) for at, move in changes if move.pod not in barred]
    names = {move.pod.rpartition("/")[2] for _, move in moves}
    ready = (line for line in played.trace.lines if line.what == "ready")
    settled = [line.at for line in ready if line.object in names]
    steps = in_steps(moves, settled, played.trace.start)
    before = played.before.get(played.key)
    return RolloutForecast(
        key=played.key,
        steps=steps,
        revision=rollout.update_revision,
        previous=sidecarset_facts(before).latest_revision if before else "",
        replicas=rollout.replicas,
        updated_before=_updated_before(played, owner),
        updated_after=rollout.updated,
        max_unavailable=rollout.budget,
        max_surge=0,
        partition=rollout.kept,
        hold=_hold(rollout, owner, sidecars),
        message=rollout.message,
        held=held,
        lasts=steps[-1].starts + steps[-1].lasts if steps else timedelta(0),
        sidecars=replace(sidecars, emptied=len(changes) - len(moves)),
    )


def _moves(lines: Sequence[Line], owner: SidecarSetFacts) -> list[tuple[datetime, PodMove]]:
    """Return the first change of each pod; later steps of a hot upgrade belong to it."""
    hot = {name for sidecar in owner.containers if sidecar.hot for name in sidecar.pair}
    seen: dict[str, tuple[datetime, PodMove]] = {}
    for line in lines:
        if line.what != SIDECAR or line.object in seen:
            continue
        changed = {part.partition(" ")[0] for part in line.why.split(", ")}
        how = HOT if changed & hot else IN_PLACE
        seen[line.object] = (line.at, PodMove(pod=line.object, how=how))
    return list(seen.values())


def _updated_before(played: SimulatedRollout, owner: SidecarSetFacts) -> int:
    """Count the pods that already run the requested sidecars."""
    kind = ROLLOUTS[played.key.group_kind]
    before = played.before.get(played.key)
    if before is None:
        return 0
    return sum(j.updated for j in judge(owner, kind.pods(played.before, before)))


def _hold(rollout: Rollout, owner: SidecarSetFacts, sidecars: Sidecars) -> str:
    if rollout.state is State.HELD:
        held = ((rollout.kept, "PartitionReached"), (len(sidecars.barred), str(Hold.CANNOT_UPDATE)))
        return next((why for count, why in held if count), str(Hold.NOT_SELECTED))
    if owner.update.inject_only and rollout.updated < rollout.replicas:
        return str(Hold.INJECT_ONLY)
    return _HELD_BY.get(rollout.state, "")


def _sidecars(
    owner: SidecarSetFacts, revisions: Sequence[Revision], held: Sequence[tuple[str, str]]
) -> Sidecars:
    barred = [
        (pod, why.removeprefix(Hold.CANNOT_UPDATE).strip())
        for pod, why in held
        if why.startswith(Hold.CANNOT_UPDATE)
    ]
    born_as, name = _injected(owner, revisions)
    sidecars = (*born_as.init_containers, *born_as.containers) if name else ()
    return Sidecars(
        barred=tuple(barred),
        left_out=sum(why.startswith(Hold.NOT_SELECTED) for _, why in held),
        born=tuple((sidecar.name, sidecar.image) for sidecar in sidecars),
        born_with=name,
    )


def _injected(owner: SidecarSetFacts, revisions: Sequence[Revision]) -> tuple[SidecarSetFacts, str]:
    """Return (set, revision) for new pods: the pinned one if it applies to all of them.

    A pin with policy Partial applies to a share of the pods; the forecast shows the current set.
    """
    pin = owner.pin
    if owner.injection_paused:
        return owner, ""
    if pin is None or not pin.named or (pin.policy != ALWAYS and not owner.update.paused):
        return owner, owner.latest_revision
    by_name: dict[str, Revision] = {r.name: r for r in revisions}
    pinned = by_name.get(pin.revision_name or "")
    if pinned is None and pin.custom_version:
        pinned = newest_of_version(revisions, owner.name, pin.custom_version)
    if pinned is None:
        return owner, owner.latest_revision
    raw: Obj = restored(owner.raw, pinned)
    return sidecarset_facts(raw), pinned.name
