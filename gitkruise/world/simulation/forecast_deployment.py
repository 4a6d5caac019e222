"""Forecast of a Deployment: waves of new and old pods, and where its rollout holds."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import groupby
from typing import TYPE_CHECKING, Final

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.planning.amounts import bounds
from gitkruise.model.planning.budget_matching import budgets_in, means
from gitkruise.model.planning.forecast import STUCK, ForecastStep, RolloutForecast, WaveCounts
from gitkruise.model.planning.trace import Line, Trace
from gitkruise.model.planning.unavailable_budget import BudgetTarget
from gitkruise.model.workloads.labels import DEPLOYMENT
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_duration
from gitkruise.world.simulation.run import (
    SimulatedRollout,
    division_of,
    effective,
    in_steps,
    moves_of,
)

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

_KIND: Final = ROLLOUTS[DEPLOYMENT]
_HOLDS: Final = {State.HELD: "CanaryReached", State.PAUSED: "Paused", State.DONE: ""}


def predict_deployment(played: SimulatedRollout) -> RolloutForecast:
    """Return the waves of the rollout and its state at the end."""
    after, trace = played.after, played.trace
    world = played.simulation.world
    end = _judged(world, after, trace.end)
    raw = played.before.get(played.key)
    before = _judged(played.before, raw, trace.start) if raw is not None else None
    sets = {
        str(key_of(one)): one["metadata"]["name"]
        for one in (*_sets(played.before, played.key), *_sets(world, played.key))
    }
    tried = [line for line in trace.lines if line.workload in sets]
    lines = effective(tried)
    waves = _Waves(played, end.update_revision)
    settled = [line.at for line in lines if line.what in {"ready", "gone"}]
    steps = waves.counted(in_steps(moves_of(lines), settled, trace.start), lines, trace.start)
    limits = bounds(after["spec"].get("strategy") or {}, end.replicas)
    return RolloutForecast(
        key=played.key,
        steps=steps,
        revision=end.update_revision,
        previous=before.update_revision or before.current_revision if before else "",
        replicas=end.replicas,
        updated_before=waves.updated_before,
        updated_after=end.updated,
        max_unavailable=end.budget,
        max_surge=limits.surge,
        partition=end.kept,
        hold=_HOLDS.get(end.state, STUCK),
        message=_message(end, trace),
        held=(),
        budgets=_budgets(world, after, tried),
        lasts=steps[-1].starts + steps[-1].lasts if steps else timedelta(0),
        canary=end.canary,
        division=division_of(played),
    )


def _message(end: Rollout, trace: Trace) -> str:
    """Return what the rollout waits for; one that is not over says how long it was played.

    New pods are counted: they have other names on the cluster.
    """
    down = (*end.failing, *end.hindered)
    if end.state is State.STUCK and down:
        noun = "1 new pod" if len(down) == 1 else f"{len(down)} new pods"
        serving = f"{end.available} of {end.replicas} keep serving"
        return f"{noun} cannot start: {down[0][1]}; {serving}"
    if end.state is not State.ROLLING or trace.quiet:
        return end.message
    return f"still rolling after {format_duration(trace.end - trace.start)}: {end.message}"


def _sets(world: World, key: ObjectKey) -> Sequence[Obj]:
    raw = world.get(key)
    return _KIND.revisions(world, raw) if raw is not None else ()


def _judged(world: World, raw: Obj, now: datetime) -> Rollout:
    return _KIND.judge(raw, _KIND.pods(world, raw), _KIND.revisions(world, raw), now)


def _budgets(world: World, raw: Obj, tried: Iterable[Line]) -> tuple[str, ...]:
    """The PodUnavailableBudgets of a Deployment some of whose deletions were refused."""
    if not any(line.what == "DeletePod" and line.why.startswith("Refused") for line in tried):
        return ()
    key, labels = key_of(raw), get(raw, "spec", "template", "metadata", "labels", default={})
    target = BudgetTarget(*DEPLOYMENT, key.name)
    return tuple(b.name for b in budgets_in(world, key.namespace) if means(b, target, labels))


class _Waves:
    """Counts of a Deployment's pods, step by step: `new` is the ReplicaSet it ends with."""

    def __init__(self, played: SimulatedRollout, new: str) -> None:
        raw = played.before.get(played.key)
        pods = _KIND.pods(played.before, raw) if raw is not None else ()
        short = new.rpartition("-")[2]
        self._new_set = f"ReplicaSet {played.key.namespace}/{new}"
        self._new = {p.name for p in pods if p.active and p.short_revision == short}
        self._old = {p.name for p in pods if p.active and p.short_revision != short}
        self._ready = {p.name for p in pods if p.active and p.in_service}
        self.updated_before = len(self._new)

    def counted(
        self, steps: Iterable[ForecastStep], lines: Sequence[Line], start: datetime
    ) -> tuple[ForecastStep, ...]:
        """`steps` with the counts after each of them; `lines` are those of the ReplicaSets."""
        instants = {at - start: list(group) for at, group in groupby(lines, lambda line: line.at)}
        due = sorted(instants)
        found = []
        for step in steps:
            while due and due[0] <= step.starts:
                for line in instants[due.pop(0)]:
                    self._take(line)
            pods = self._new | self._old
            counts = WaveCounts(
                new=len(self._new), old=len(self._old), available=len(self._ready & pods)
            )
            found.append(replace(step, counts=counts))
        return tuple(found)

    def _take(self, line: Line) -> None:
        match line.what:
            case "CreatePod":
                (self._new if line.workload == self._new_set else self._old).add(line.object)
            case "DeletePod":
                self._new.discard(line.object)
                self._old.discard(line.object)
            case "ready":
                self._ready.add(line.object)
            case "unready" | "gone":
                self._ready.discard(line.object)
            case _:
                pass  # nothing that changes a count
