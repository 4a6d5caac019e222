"""Ties in OpenKruise's order of pods: which of equally ranked pods go first.

Its comparator has no last key and its sort is not stable, so that two runs over equal pods may
differ. Ours ends with the name (planner.order); a plan for pods it does not drive must not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from gitkruise.model.planning.forecast import DELETE, ForecastStep, PodMove, RolloutForecast
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.model.workloads.labels import CLONESET, DEPLOYMENT
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.rollout_kinds import STATEFUL
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.planner.pods.order import deletion_rank, update_rank
from gitkruise.wire.primitives.names import Obj

# OpenKruise drives no Deployment, and no pod of its forecast has a name; ordinals leave none open.
_DEFINITE: Final = frozenset({DEPLOYMENT}) | STATEFUL
Groups = Mapping[str, tuple[str, ...]]  # by pod


def loosened(p: RolloutForecast, target: Obj, pods: Iterable[PodFacts]) -> RolloutForecast:
    """`p` with each move that another pod could make as well naming all of them.

    `target` is the object as the commit wants it, `pods` those it has before. How many move in a
    step, and how, is as foretold; a set that moves whole in one step keeps its names.
    """
    if p.key.group_kind in _DEFINITE:
        return p
    own = p.key.group_kind == CLONESET
    active = [pod for pod in pods if pod.active]
    strategy = (cloneset_facts if own else sidecarset_facts)(target).update
    named = _by_name if own else _by_path
    updates = _groups(active, lambda pod: update_rank(pod, strategy), named)
    deletions = _groups(active, deletion_rank, named)
    steps = tuple(_loose(step, updates, deletions) for step in p.steps)
    left_open = {pod for step in steps for move in step.moves for pod in move.of}
    held = tuple((pod, why) for pod, why in p.held if pod not in left_open)
    return replace(p, steps=steps, held=held)


def _by_name(pod: PodFacts) -> str:
    return pod.name


def _by_path(pod: PodFacts) -> str:
    return f"{pod.namespace}/{pod.name}"


def _groups(
    pods: Sequence[PodFacts], rank: Callable[[PodFacts], Hashable], named: Callable[[PodFacts], str]
) -> Groups:
    alike: dict[Any, list[str]] = defaultdict(list)
    for pod in pods:
        alike[rank(pod)].append(named(pod))
    sets = [tuple(sorted(names)) for names in alike.values() if len(names) > 1]
    return {name: names for names in sets for name in names}


def _loose(step: ForecastStep, updates: Groups, deletions: Groups) -> ForecastStep:
    sets = [(deletions if m.how == DELETE else updates).get(m.pod, ()) for m in step.moves]
    taken = Counter(id(names) for names in sets)
    moves = tuple(
        replace(move, of=names) if taken[id(names)] < len(names) else move
        for move, names in zip(step.moves, sets, strict=True)
    )
    return replace(step, moves=moves)


def split(step: ForecastStep) -> tuple[list[PodMove], list[tuple[int, tuple[str, ...]]]]:
    """(moves of pods that are certain, how many of which pods otherwise)."""
    certain = [move for move in step.moves if not move.of]
    open_ = {id(move.of): move.of for move in step.moves if move.of}
    counts = Counter(id(move.of) for move in step.moves)
    return certain, [(counts[key], names) for key, names in open_.items()]
