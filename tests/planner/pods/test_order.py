"""Pod order: deletion, ranks, priorities."""

from __future__ import annotations

from itertools import groupby, pairwise
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.cloneset import UpdateStrategy
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.model.workloads.priority import Weight
from gitkruise.planner.pods.order import (
    deletion_order,
    deletion_rank,
    same_node_ranks,
    spread_ranks,
    update_order,
    update_rank,
)
from gitkruise.wire.values.selectors import label_selector
from tests.pods import NOW, pods, raw_pod, stamp

MONTH_S: Final = 30 * 86400


def pod(name: str = "web-a", **changes: Any) -> PodFacts:
    return pod_facts(raw_pod(name, **changes))


def ready(since_s: float | None, **changes: Any) -> dict[str, Any]:
    condition: dict[str, Any] = {"type": "Ready", "status": "True"}
    if since_s is not None:
        condition["lastTransitionTime"] = stamp(since_s)
    return {"conditions": [condition], **changes}


def restarted(count: int) -> dict[str, Any]:
    return {"containerStatuses": [{"name": "main", "restartCount": count}]}


# Left is deleted before right.
PAIRS: Final = {
    "unscheduled before pending": (
        {"nodeName": "", "phase": "Pending", "ready": False},
        {"phase": "Pending", "ready": False},
    ),
    "pending before unknown": (
        {"phase": "Pending", "ready": False},
        {"phase": "Unknown", "ready": False},
    ),
    "unknown before running": ({"phase": "Unknown", "ready": False}, {"ready": False}),
    "not ready before ready": ({"ready": False}, ready(None)),
    "no transition time counts as latest": (ready(None), ready(0)),
    "ready now before ready for a month": (ready(0), ready(-MONTH_S)),
    "restarted often before never": (ready(0, **restarted(9001)), ready(0, **restarted(0))),
    "young before old": (ready(0), ready(0, creationTimestamp=stamp(-MONTH_S))),
    "low cost before high": (
        ready(0, annotations={"controller.kubernetes.io/pod-deletion-cost": "10"}),
        ready(0, annotations={"controller.kubernetes.io/pod-deletion-cost": "100"}),
    ),
    "negative cost first": (
        ready(0, annotations={"controller.kubernetes.io/pod-deletion-cost": "-5"}),
        ready(0),
    ),
}


@pytest.mark.parametrize("pair", PAIRS.values(), ids=PAIRS)
def test_deletion_order(pair: tuple[dict[str, Any], dict[str, Any]]) -> None:
    first, second = pod("web-z", **pair[0]), pod("web-a", **pair[1])
    available = [p.name for p in (first, second) if p.available(NOW)]
    assert deletion_order([second, first], available=available) == [first, second]


COSTS: Final = {"010": 0, "+5": 0, "-05": -5, "0": 0, "2147483648": 0, "7": 7, "x": 0}


@pytest.mark.parametrize(("text", "cost"), COSTS.items(), ids=COSTS)
def test_deletion_cost_is_read_as_kubernetes_does(text: str, cost: int) -> None:
    note = {"controller.kubernetes.io/pod-deletion-cost": text}
    assert pod(annotations=note).deletion_cost == cost


def test_equal_pods_go_by_name() -> None:
    assert [p.name for p in deletion_order(reversed(pods("3n+")), available=None)] == [
        "web-000", "web-001", "web-002",
    ]  # fmt: skip


def placed(nodes: str) -> list[PodFacts]:
    """One pod a letter, named by its place among those of its node; `.` is unscheduled."""
    seen: dict[str, int] = {}
    made = []
    for at, node in enumerate(nodes):
        seen[node] = seen.get(node, -1) + 1
        name = f"{node}-{seen[node]}" if node != "." else f"web-{at:02}"
        made.append(pod(name, nodeName="" if node == "." else node))
    return made


def test_same_node_ranks() -> None:
    ranks = same_node_ranks(placed("a..baCbdddA".replace("C", "c").replace("A", "a")))
    assert ranks == {"a-0": 2, "a-1": 1, "b-0": 1, "d-0": 2, "d-1": 1}


COUNTS: Final = "aabbcccdddddeeeeefffiiiii"
ZONES: Final = {n: {"zone": z, "kubernetes.io/hostname": n} for z, ns in
                {"z1": "bcd", "z2": "ef", "z3": "hi"}.items() for n in ns} | {
                    "a": {"kubernetes.io/hostname": "a"}}  # fmt: skip
SPREADS: Final = {
    "zone": (
        ("zone",),
        ZONES,
        (
            "d-0|d-1|c-0 e-0|d-2 e-1|b-0 e-2|c-1 f-0 i-0|d-3 e-3 i-1|b-1 f-1 i-2|"
            "c-2 e-4 i-3|d-4 f-2 i-4"
        ),
    ),
    "zone of two values": (
        ("zone",),
        {n: labels for n, labels in ZONES.items() if labels.get("zone") in {"z2", "z3"}},
        "e-0 | e-1 | e-2 | f-0 i-0 | e-3 i-1 | f-1 i-2 | e-4 i-3 | f-2 i-4",
    ),
    "zone and hostname": (
        ("zone", "kubernetes.io/hostname"),
        {n: labels for n, labels in ZONES.items() if n != "a"},
        (
            "d-0 e-0|d-1 e-1|c-0 i-0|d-2 e-2|i-1 f-0|b-0 c-1|i-2 d-3|e-3 f-1|i-3 b-1|"
            "c-2 e-4|d-4 f-2 i-4"
        ),
    ),
}


@pytest.mark.parametrize("row", SPREADS.values(), ids=SPREADS)
def test_spread_ranks(row: tuple[tuple[str, ...], dict[str, dict[str, str]], str]) -> None:
    keys, nodes, wanted = row
    ranks = spread_ranks(placed(COUNTS), keys, nodes)
    listed = [name for group in wanted.split("|") for name in group.split()]
    assert set(ranks) == set(listed)
    by_name = {name: round(rank, 9) for name, rank in ranks.items()}
    if keys == ("zone",):  # ties of the vector are ties of the ranks
        groups = [group.split() for group in wanted.split("|")]
        assert [{by_name[n] for n in g} for g in groups] == [
            {rank} for rank in sorted(set(by_name.values()), reverse=True)
        ]
    else:
        assert all(by_name[a] >= by_name[b] for a, b in pairwise(listed))


def labelled(*labels: dict[str, str]) -> list[PodFacts]:
    return [pod(f"web-{at}", labels=found) for at, found in enumerate(labels)]


def first(strategy: UpdateStrategy, left: dict[str, str], right: dict[str, str]) -> bool | None:
    """True: a pod with `left` goes before one with `right` whatever their names; None: a tie."""
    marked = {**left, "side": "left"}
    winners = {
        update_order(labelled(*pair), (), strategy)[0].labels.get("side") == "left"
        for pair in ((marked, right), (right, marked))
    }
    return winners.pop() if len(winners) == 1 else None


def weights(**by_key: int) -> UpdateStrategy:
    terms = [
        Weight(weight=w, selector=label_selector({"matchLabels": dict([k.split("__")])}))
        for k, w in by_key.items()
    ]
    return UpdateStrategy(weight_priority=tuple(terms))


FOO_BAR = weights(key__foo=20, key__bar=10)
ORDERS = UpdateStrategy(order_priority=("key1", "key2"))
PRIORITIES: Final = {
    "equal weights": (FOO_BAR, {}, {"x": "y"}, None),
    "lighter": (FOO_BAR, {"key": "bar"}, {"key": "foo"}, False),
    "none": (FOO_BAR, {}, {"key": "bar"}, False),
    "two terms outweigh one": (
        weights(key1__foo=20, key2__bar=10, key3__baz=15),
        {"key1": "foo"},
        {"key2": "bar", "key3": "baz"},
        False,
    ),
    "two terms do not": (
        weights(key1__foo=20, key2__bar=10, key3__baz=5),
        {"key2": "bar", "key3": "baz"},
        {"key1": "foo"},
        False,
    ),
    "larger number first": (ORDERS, {"key1": "o-10"}, {"key1": "o-5"}, True),
    "smaller number later": (ORDERS, {"key1": "o-10"}, {"key1": "o-20"}, False),
    "first key before second": (ORDERS, {"key2": "o-20"}, {"key1": "o-10"}, False),
    "second key by number": (ORDERS, {"key2": "o-20"}, {"key2": "o-10"}, True),
    "pods without any key go first": (ORDERS, {}, {"key1": "o-10"}, True),
}


@pytest.mark.parametrize("row", PRIORITIES.values(), ids=PRIORITIES)
def test_priority(
    row: tuple[UpdateStrategy, dict[str, str], dict[str, str], bool | None],
) -> None:
    strategy, left, right, wanted = row
    assert first(strategy, left, right) is wanted


def test_base_order() -> None:
    fleet = [
        pod("web-0", phase="Pending"),
        pod("web-1", phase="Pending", ready=False),
        pod("web-3"),
        pod("web-4", ready=False),
    ]
    ordered = update_order(fleet, fleet, UpdateStrategy())
    assert [p.name for p in ordered] == ["web-1", "web-0", "web-4", "web-3"]


def test_pods_already_preparing_go_first() -> None:
    fleet = pods("o- o[PU]+ o+")
    assert update_order(fleet, fleet, UpdateStrategy())[0].name == "web-001"


@given(st.permutations(list(range(8))))
def test_order_does_not_depend_on_the_order_pods_come_in(places: list[int]) -> None:
    fleet = pods("3o+ 2o- o[PU]+ 2n+")
    shuffled = [fleet[at] for at in places]
    assert update_order(shuffled, fleet, UpdateStrategy()) == update_order(
        fleet, fleet, UpdateStrategy()
    )
    assert deletion_order(shuffled, available=None) == deletion_order(fleet, available=None)


@st.composite
def fleets(draw: st.DrawFn) -> list[PodFacts]:
    """Pods that often agree in all that an order asks, under names in any order."""
    few = st.integers(0, 1)
    return [
        msgspec.structs.replace(
            base,
            name=f"web-{name}",
            deletion_cost=draw(few),
            restarts=draw(few),
            sidecar_restarts=draw(few),
            ready_since=draw(st.sampled_from([None, NOW])),
            created=draw(st.sampled_from([None, NOW])),
        )
        for name, base in zip(
            draw(st.permutations(list(range(6)))),
            draw(st.lists(st.sampled_from(pods("o+ o- o[PU]+")), min_size=6, max_size=6)),
            strict=True,
        )
    ]


@given(fleets(), st.sampled_from([UpdateStrategy(), UpdateStrategy(order_priority=("app",))]))
def test_pods_of_one_rank_stand_together_and_go_by_name(
    fleet: list[PodFacts], strategy: UpdateStrategy
) -> None:
    orders = (
        (deletion_order(fleet, available=None), deletion_rank),
        (update_order(fleet, fleet, strategy), lambda pod: update_rank(pod, strategy)),
    )
    for ordered, rank in orders:
        runs = [[pod.name for pod in run] for _, run in groupby(ordered, key=rank)]
        assert len(runs) == len({rank(pod) for pod in fleet})
        assert all(run == sorted(run) for run in runs)


def test_restarts_of_native_sidecars_leave_deletions_tied() -> None:
    one, other = pods("2o+")
    other = msgspec.structs.replace(other, sidecar_restarts=9)
    assert deletion_rank(one) == deletion_rank(other)
    assert update_rank(one, UpdateStrategy()) != update_rank(other, UpdateStrategy())
