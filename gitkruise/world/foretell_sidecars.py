"""What is foretold of a SidecarSet: pods whose sidecars change live, those that cannot, and what
new pods get."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from gitkruise.model.forecast import HOT, STUCK, PodMove, Prediction, Sidecars
from gitkruise.model.plan import Hold
from gitkruise.model.record import Rollout
from gitkruise.model.revision import Revision, revision_of
from gitkruise.model.sidecarset import ALWAYS, SidecarSetFacts, sidecarset_facts
from gitkruise.model.sidecarset_revision import newest_of_version, restored
from gitkruise.model.states import State
from gitkruise.model.trace import IN_PLACE, SIDECAR, Line
from gitkruise.planner.rollout_kinds import ROLLOUTS
from gitkruise.planner.sidecarset.fleet import judge
from gitkruise.wire.names import Obj
from gitkruise.world.played import Played, in_steps

_HELD_BY: Final = {State.PAUSED: "Paused", State.ROLLING: STUCK, State.STUCK: STUCK}


def foretell_sidecarset(played: Played) -> Prediction:
    """Its waves over the pods that run, and where it stands after."""
    after = played.after
    owner, kind = sidecarset_facts(after), ROLLOUTS[played.key.group_kind]
    world = played.simulation.world
    revisions = kind.revisions(world, after)
    rollout = kind.judge(after, kind.pods(world, after), revisions, played.trace.end)
    held = tuple(sorted(played.simulation.held(played.key).items()))
    lines = [line for line in played.trace.lines if line.workload == str(played.key)]
    moves = _moves(lines, owner)
    names = {move.pod.rpartition("/")[2] for _, move in moves}
    ready = (line for line in played.trace.lines if line.what == "ready")
    settled = [line.at for line in ready if line.object in names]
    steps = in_steps(moves, settled, played.trace.start)
    before = played.before.get(played.key)
    told = _sidecars(owner, [revision_of(r) for r in revisions], held)
    return Prediction(
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
        hold=_hold(rollout, owner, told),
        message=rollout.message,
        held=held,
        lasts=steps[-1].starts + steps[-1].lasts if steps else timedelta(0),
        sidecars=told,
    )


def _moves(lines: Sequence[Line], owner: SidecarSetFacts) -> list[tuple[datetime, PodMove]]:
    """The first change of each pod; what follows of a hot upgrade belongs to it."""
    hot = {name for sidecar in owner.containers if sidecar.hot for name in sidecar.pair}
    seen: dict[str, tuple[datetime, PodMove]] = {}
    for line in lines:
        if line.what != SIDECAR or line.object in seen:
            continue
        changed = {part.partition(" ")[0] for part in line.why.split(", ")}
        how = HOT if changed & hot else IN_PLACE
        seen[line.object] = (line.at, PodMove(pod=line.object, how=how))
    return list(seen.values())


def _updated_before(played: Played, owner: SidecarSetFacts) -> int:
    """Pods that run what is asked for already."""
    kind = ROLLOUTS[played.key.group_kind]
    before = played.before.get(played.key)
    if before is None:
        return 0
    return sum(j.updated for j in judge(owner, kind.pods(played.before, before)))


def _hold(rollout: Rollout, owner: SidecarSetFacts, told: Sidecars) -> str:
    if rollout.state is State.HELD:
        held = ((rollout.kept, "PartitionReached"), (len(told.barred), str(Hold.CANNOT_UPDATE)))
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
    """(the set as new pods get it, its revision): the pinned one where it goes for all pods.

    A pin under policy Partial goes for a share of them; they are told the present spec.
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
