"""Laws of WorkloadSpreads: limits hold at admission, and the status counts the pods."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.planning.workload_spread import (
    MATCHED,
    UNLIMITED,
    SpreadFacts,
    choose_subset,
    recorded_creation,
    recorded_deletion,
    spread_facts,
    subset_match,
)
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.spread.controller import deletion_costs
from gitkruise.planner.spread.counts import Counting
from gitkruise.planner.spread.grouping import grouped
from gitkruise.wire.primitives.names import Obj
from tests.worlds import spread, subset

NOW: Final = datetime(2026, 11, 21, 10, tzinfo=UTC)
LIMITS: Final = st.lists(st.one_of(st.none(), st.integers(0, 4)), min_size=1, max_size=4)
PERCENTS: Final = st.lists(st.integers(0, 100).map(lambda n: f"{n}%"), min_size=1, max_size=4)
MOVES: Final = st.lists(st.tuples(st.sampled_from("cdn"), st.integers(0, 9)), max_size=30)


def facts(limits: list[int | str | None], status: Obj) -> SpreadFacts:
    subsets = [subset(f"s{at}", limit) for at, limit in enumerate(limits)]
    obj = spread("zones", *subsets)
    obj["metadata"] |= {"namespace": "shop", "uid": "u", "generation": 1}
    return spread_facts({**obj, "status": status})


def raw_pod(name: str, **notes: str) -> dict[str, Any]:
    owner = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web", "uid": "w"}
    meta = {
        "name": name,
        "namespace": "shop",
        "uid": name,
        "annotations": dict(notes),
        "ownerReferences": [{**owner, "controller": True}],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "status": {"phase": "Running"}}


class Played:
    """Pods that come and go through admission, with a controller that counts now and then."""

    def __init__(self, limits: list[int | str | None], replicas: int) -> None:
        self.limits, self.replicas = limits, replicas
        self.status: Obj = {}
        self.pods: dict[str, Obj] = {}

    @property
    def facts(self) -> SpreadFacts:
        return facts(self.limits, self.status)

    def create(self) -> None:
        pod = raw_pod(next(f"p{n}" for n in range(99) if f"p{n}" not in self.pods))
        choice = choose_subset(self.facts, pod, uid="", replicas=self.replicas, now=NOW)
        if choice is not None:
            pod["metadata"]["annotations"][MATCHED] = choice.match.text
            after = recorded_creation(self.facts, pod, replicas=self.replicas, now=NOW)
            assert after == choice.status, "what a webhook and a cluster record is the same"
            self.status = after or self.status
        self.pods[pod["metadata"]["name"]] = pod

    def delete(self, at: int) -> None:
        if self.pods:
            name = sorted(self.pods)[at % len(self.pods)]
            pod = self.pods.pop(name)
            self.status = (
                recorded_deletion(self.facts, pod, replicas=self.replicas, now=NOW) or self.status
            )

    def count(self, now: datetime = NOW) -> Obj:
        placed = grouped(self.facts, self.seen(), {}, self.replicas)
        counting = Counting(spread=self.facts, replicas=self.replicas, now=now)
        return counting.status(placed)

    def seen(self) -> list[PodFacts]:
        return [pod_facts(self.pods[name]) for name in sorted(self.pods)]

    def by_subset(self) -> Counter[str]:
        found = (subset_match(pod["metadata"]["annotations"]) for pod in self.pods.values())
        return Counter(match.subset for match in found if match is not None)


def played(limits: list[Any], replicas: int, moves: list[tuple[str, int]]) -> Played:
    game = Played(limits, replicas)
    for move, at in moves:
        if move == "c":
            game.create()
        elif move == "d":
            game.delete(at)
        else:
            game.status = game.count()
        for one in game.facts.subsets:
            limit = one.pods(replicas)
            assert limit == UNLIMITED or game.by_subset()[one.name] <= limit
    return game


@given(limits=LIMITS, moves=MOVES)
def test_no_subset_gets_more_pods_than_its_limit(
    limits: list[Any], moves: list[tuple[str, int]]
) -> None:
    played(limits, 5, moves)


@given(limits=PERCENTS, replicas=st.integers(0, 12), moves=MOVES)
def test_no_subset_gets_more_than_its_share(
    limits: list[Any], replicas: int, moves: list[tuple[str, int]]
) -> None:
    played(limits, replicas, moves)


@given(limits=LIMITS, moves=MOVES)
def test_the_status_counts_the_pods(limits: list[Any], moves: list[tuple[str, int]]) -> None:
    game = played(limits, 5, moves)
    status = game.count(NOW + timedelta(minutes=1))  # every record is too old by then
    for one, each in zip(game.facts.subsets, status["subsetStatuses"], strict=True):
        pods, limit = game.by_subset()[one.name], one.pods(5)
        assert each["replicas"] == pods
        assert each["missingReplicas"] == (UNLIMITED if limit == UNLIMITED else limit - pods)
        assert not each.keys() & {"creatingPods", "deletingPods"}


@given(limits=LIMITS, moves=MOVES)
def test_costs_order_subsets_and_nothing_else(
    limits: list[Any], moves: list[tuple[str, int]]
) -> None:
    game = played(limits, 5, moves)
    spread = game.facts
    placed = grouped(spread, game.seen(), {}, 5)
    costs = deletion_costs(spread, placed, "versionIgnored", 5)
    assert costs.keys() == {pod.facts.name for pod in placed}
    names = [one.name for one in spread.subsets]
    for one in placed:
        at = names.index(one.subset) if one.subset else len(names)
        expected = {100 * (len(names) - at), -100 * (at + 1)} if one.subset else {-100 * (at + 1)}
        assert costs[one.facts.name] in expected
