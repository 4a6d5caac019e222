"""Forecast of a CloneSet: pods updated in place, recreated, created and deleted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gitkruise.model.gitops.health import Health, Phase
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.planning.forecast import (
    CREATE,
    DELETE,
    RECREATE,
    STUCK,
    PodMove,
    RolloutForecast,
)
from gitkruise.model.planning.plan import Hold
from gitkruise.model.planning.trace import HELD, Line
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.model.workloads.conditions import FAILED_SCALE, FAILED_UPDATE
from gitkruise.planner.health.health import health
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.progress.failing_pods import refusals, unready
from gitkruise.printable import many
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.world.simulation.run import SimulatedRollout, division_of, in_steps, moves_of

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World


def predict_cloneset(played: SimulatedRollout) -> RolloutForecast:
    """Return the steps of the rollout and its state at the end."""
    facts = cloneset_facts(played.after)
    amounts = resolve_amounts(facts)
    found = predict_pods(
        played,
        _moves,
        replicas=facts.replicas,
        max_unavailable=amounts.unavailable,
        max_surge=amounts.surge,
        partition=amounts.partition,
    )
    return replace(found, division=division_of(played))


def predict_pods(
    played: SimulatedRollout,
    moves: Callable[[Sequence[Line]], list[tuple[datetime, PodMove]]],
    *,
    replicas: int,
    max_unavailable: int,
    max_surge: int,
    partition: int,
) -> RolloutForecast:
    """Return the forecast of a workload that owns its pods; `moves` are those of its lines."""
    world, simulation, trace, key = played
    after = played.after
    who = str(key)
    lines = [line for line in trace.lines if line.workload == who]
    settled = [line.at for line in lines if line.what in {"ready", "gone"}]
    steps = in_steps(moves(lines), settled, trace.start)
    status = after.get("status") or {}
    revision = str(status.get("updateRevision") or "")
    verdict = health(after)
    return RolloutForecast(
        key=key,
        steps=steps,
        revision=revision,
        previous=_previous_revision(world.get(key)),
        replicas=replicas,
        updated_before=_on_revision(world, key, revision),
        updated_after=int(status.get("updatedReplicas") or 0),
        max_unavailable=max_unavailable,
        max_surge=max_surge,
        partition=partition,
        hold=_hold(verdict),
        message=_message(played, verdict),
        held=tuple(sorted(simulation.held(key).items())),
        staying=_staying(played, revision),
        budgets=_budgets_waited_for(lines),
        lasts=steps[-1].starts + steps[-1].lasts if steps else timedelta(0),
    )


def _budgets_waited_for(lines: Sequence[Line]) -> tuple[str, ...]:
    """The PodUnavailableBudgets that pods waited for."""
    reasons = {line.why for line in lines if line.what == HELD}  # few, on very many lines
    found = map(str.split, reasons)
    return tuple(sorted({words[1] for words in found if words[:1] == [Hold.UNAVAILABLE_BUDGET]}))


def _hold(verdict: Health) -> str:
    """Return the reason why a rollout of this health stops; "" when it is complete."""
    if verdict.phase in {Phase.HELD, Phase.PAUSED}:
        return verdict.reason
    return "" if verdict.phase is Phase.CURRENT else STUCK


def _message(played: SimulatedRollout, verdict: Health) -> str:
    """Return the message of a rollout's health; of one that gets stuck also the cause.

    Pods are counted: without a cluster they have other names.
    """
    if _hold(verdict) != STUCK:
        return verdict.message
    if played.key in played.simulation.endless:
        return "its pods are created and deleted without end"
    kind, world = ROLLOUTS[played.key.group_kind], played.simulation.world
    pods = kind.pods(world, played.after)
    end = kind.judge(played.after, pods, kind.revisions(world, played.after), played.trace.end)
    down = (*end.failing, *end.hindered)
    if end.state is State.STUCK and down:
        serving = f"{end.available} of {end.replicas} keep serving"
        return f"{many(len(down), 'updated pod')} cannot start: {down[0][1]}; {serving}"
    if end.state is State.STUCK:
        return end.message
    why = next((why for pod in pods if pod.active and (why := unready(pod))), "") or refusals(
        played.after, FAILED_SCALE, FAILED_UPDATE, dated=False
    )
    return f"{verdict.message}; {why}" if why else verdict.message


def _previous_revision(before: Obj | None) -> str:
    """Return the update revision of a status, "" before there is one."""
    status = (before or {}).get("status") or {}
    return str(status.get("updateRevision") or "")


def _on_revision(world: World, key: ObjectKey, revision: str) -> int:
    """Return how many pods of a workload run a revision."""
    before = world.get(key)
    if before is None:
        return 0
    pods = world.pods_of(before["metadata"]["uid"], key.namespace)
    return sum(pod.active and pod.on_revision(revision) for pod in pods)


def _staying(played: SimulatedRollout, revision: str) -> tuple[tuple[str, int], ...]:
    """Return how many pods are on other revisions at the end, the most frequent first."""
    pods = played.simulation.world.pods_of(played.after["metadata"]["uid"], played.key.namespace)
    left = (pod.revision for pod in pods if pod.active and not pod.on_revision(revision))
    return tuple(Counter(left).most_common())


def _moves(lines: Sequence[Line]) -> list[tuple[datetime, PodMove]]:
    """Count a deletion with a matching creation as one recreation."""
    found = [(at, move.pod, move.how) for at, move in moves_of(lines)]
    created = sum(how == CREATE for _, _, how in found)
    deleted = sum(how == DELETE for _, _, how in found)
    replaced = min(created, deleted)
    extra, left, moves = created - replaced, replaced, []
    for at, pod, how in found:
        if how == CREATE:
            if extra > 0:
                moves.append((at, PodMove(pod=pod, how=CREATE)))
            extra -= 1
        elif how == DELETE and left > 0:
            moves.append((at, PodMove(pod=pod, how=RECREATE)))
            left -= 1
        else:
            moves.append((at, PodMove(pod=pod, how=how)))
    return moves
