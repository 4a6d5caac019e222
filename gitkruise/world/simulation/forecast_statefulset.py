"""Forecast of a StatefulSet, OpenKruise's or Kubernetes': pods updated in place, recreated,
created and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from gitkruise.model.planning.forecast import CREATE, DELETE, RECREATE, PodMove, RolloutForecast
from gitkruise.model.planning.trace import Line
from gitkruise.model.workloads.labels import ADVANCED_STATEFULSET
from gitkruise.planner.statefulset.facts import stateful_set_facts
from gitkruise.world.simulation.forecast_cloneset import predict_pods
from gitkruise.world.simulation.run import SimulatedRollout, moves_of


def predict_stateful_set(played: SimulatedRollout) -> RolloutForecast:
    """Return the steps of the rollout and its state at the end. Raises UnreadableAmount."""
    facts = stateful_set_facts(played.after)
    return predict_pods(
        played,
        _moves,
        replicas=facts.replicas,
        max_unavailable=facts.unavailable if played.key.group_kind == ADVANCED_STATEFULSET else 1,
        max_surge=0,
        partition=facts.kept,
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
