"""Forecast of a StatefulSet, OpenKruise's or Kubernetes': pods updated in place, recreated,
created and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timedelta

from gitkruise.model.planning.forecast import CREATE, DELETE, RECREATE, PodMove, RolloutForecast
from gitkruise.model.planning.trace import Line
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET
from gitkruise.planner.health.health import health
from gitkruise.planner.statefulset.facts import stateful_set_facts
from gitkruise.world.simulation.forecast_cloneset import (
    budgets_waited_for,
    hold_of,
    message_of,
    on_revision,
    previous_revision,
    staying,
)
from gitkruise.world.simulation.run import SimulatedRollout, in_steps, moves_of


def predict_stateful_set(played: SimulatedRollout) -> RolloutForecast:
    """Return the steps of the rollout and its state at the end. Raises UnreadableAmount."""
    world, simulation, trace, key = played
    after = played.after
    facts = stateful_set_facts(after)
    lines = [line for line in trace.lines if line.workload == str(key)]
    settled = [line.at for line in lines if line.what in {"ready", "gone"}]
    steps = in_steps(_moves(lines), settled, trace.start)
    revision = str(facts.status.get("updateRevision") or "")
    verdict = health(after)
    return RolloutForecast(
        key=key,
        steps=steps,
        revision=revision,
        previous=previous_revision(world.get(key)),
        replicas=facts.replicas,
        updated_before=on_revision(world, key, revision),
        updated_after=int(facts.status.get("updatedReplicas") or 0),
        max_unavailable=facts.unavailable if key.group_kind == ADVANCED_STATEFULSET else 1,
        max_surge=0,
        partition=facts.kept,
        hold=hold_of(verdict),
        message=message_of(played, verdict),
        held=tuple(sorted(simulation.held(key).items())),
        staying=staying(played, revision),
        budgets=budgets_waited_for(lines),
        lasts=steps[-1].starts + steps[-1].lasts if steps else timedelta(0),
    )


def _moves(lines: Sequence[Line]) -> list[tuple[datetime, PodMove]]:
    """A deletion with a later creation of the same name is one recreation."""
    found = [(at, move.pod, move.how) for at, move in moves_of(lines)]
    moves: list[tuple[datetime, PodMove]] = []
    created = {pod: index for index, (_, pod, how) in enumerate(found) if how == CREATE}  # the last
    replaced: set[str] = set()  # deleted, and created later
    for index, (at, pod, how) in enumerate(found):
        if how == DELETE and created.get(pod, -1) > index:
            replaced.add(pod)
            moves.append((at, PodMove(pod=pod, how=RECREATE)))
        elif how == CREATE and pod in replaced:
            replaced.discard(pod)
        else:
            moves.append((at, PodMove(pod=pod, how=how)))
    return moves
