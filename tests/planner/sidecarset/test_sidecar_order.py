"""Update order of the pods of a SidecarSet: SIDE-33 to SIDE-38."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gitkruise.model.workloads.pod import pod_facts
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.planner.pods.order import rollout_order
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import COLD, injected, moved, plan, sidecarset

OLD: Final = sidecarset({**COLD, "image": "side:0"})
Labels = Mapping[int, Mapping[str, str]]


def weights(**terms: int) -> dict[str, Any]:
    """`key_value=weight` terms."""
    return {
        "priorityStrategy": {
            "weightPriority": [
                {"weight": weight, "matchSelector": {"matchLabels": dict([name.split("_")])}}
                for name, weight in terms.items()
            ]
        }
    }


def keys(*names: str) -> dict[str, Any]:
    return {"priorityStrategy": {"orderPriority": [{"orderedKey": name} for name in names]}}


# update strategy, updated pods that are not ready, old ones that are not, labels, what changes
ROWS: Final[dict[str, tuple[dict[str, Any], int, set[int], Labels, list[int]]]] = {
    "SIDE-33": ({}, 5, set(), {}, [19, 18, 17, 16, 15]),
    "SIDE-34": ({}, 5, {10, 13}, {}, [13, 10, 19, 18, 17, 16, 15]),
    "SIDE-35": (
        weights(k_foo=50, k_bar=30), 8, set(),
        {16: {"k": "foo"}, 15: {"k": "bar"}}, [16, 15],
    ),
    "SIDE-36": (
        keys("key1"), 8, set(),
        {at: {"key1": {17: "10", 18: "20"}.get(at, "5")} for at in range(20)},
        [18, 17],
    ),
}  # fmt: skip


@pytest.mark.parametrize(("update", "down", "unready", "labels", "order"), ROWS.values(), ids=ROWS)
def test_row(
    update: dict[str, Any], down: int, unready: set[int], labels: Labels, order: list[int]
) -> None:
    new = sidecarset(update={"maxUnavailable": 10, **update})
    pods = [
        injected(
            new if at < 10 else OLD,
            f"pod-{at}",
            age_s=9000 - at,
            ready=at >= down and at not in unready,
            labels=labels.get(at),
        )
        for at in range(20)
    ]
    assert moved(plan(new, pods)) == [f"pod-{at}" for at in order]


def first(update: dict[str, Any], *labels: Mapping[str, str]) -> list[int]:
    """Indexes of otherwise equal pods in update order."""
    raw = sidecarset(update=update)
    pods = [pod_facts(injected(OLD, f"p-{at}", labels=each)) for at, each in enumerate(labels)]
    ordered = rollout_order(pods, pods, sidecarset_facts(raw).update)
    return [int(pod.name.removeprefix("p-")) for pod in ordered]


A, B = {"k": "foo"}, {"k": "bar"}
TWO: Final = weights(k_foo=20, k_bar=10)
ONE: Final[Obj] = {"a": "1"}
TWICE: Final[Obj] = {"b": "1", "c": "1"}
PAIRS: Final = {
    "SIDE-37": (
        weights(foo_bar=100, hello_world=90),
        ({"hello": "world"}, {}, {"foo": "bar"}, {}),
        [2, 0, 1, 3],
    ),
    "SIDE-38 no pod matches": (weights(x_y=100), ({}, A, {}), [0, 1, 2]),
    "SIDE-38 an empty strategy": ({"priorityStrategy": {}}, ({}, A, {}), [0, 1, 2]),
    "no key, no order": (TWO, ({}, {}), [0, 1]),
    "equal weights": (TWO, (A, A), [0, 1]),
    "less weight": (TWO, (B, A), [1, 0]),
    "no weight against some": (TWO, ({}, B), [1, 0]),
    "weights add up": (weights(a_1=20, b_1=10, c_1=15), (ONE, TWICE), [1, 0]),
    "less together": (weights(a_1=20, b_1=10, c_1=5), (TWICE, ONE), [1, 0]),
    "larger numbers first": (keys("key1", "key2"), ({"key1": "o-10"}, {"key1": "o-5"}), [0, 1]),
    "equal numbers": (keys("key1", "key2"), ({"key1": "o-10"}, {"key1": "o-10"}), [0, 1]),
    "a smaller number": (keys("key1", "key2"), ({"key1": "o-10"}, {"key1": "o-20"}), [1, 0]),
    "a later key": (keys("key1", "key2"), ({"key2": "o-20"}, {"key1": "o-10"}), [1, 0]),
    "numbers of a later key": (keys("key1", "key2"), ({"key2": "o-20"}, {"key2": "o-10"}), [0, 1]),
    "no key at all goes first": (keys("key1"), ({"key1": "o-9"}, {}), [1, 0]),
}  # fmt: skip


@pytest.mark.parametrize(("update", "labels", "order"), PAIRS.values(), ids=PAIRS)
def test_priority(
    update: dict[str, Any], labels: tuple[Mapping[str, str], ...], order: list[int]
) -> None:
    assert first(update, *labels) == order


def test_quirk_ties_are_broken_by_namespace_and_name() -> None:
    """OpenKruise's order of equal pods is arbitrary."""
    names = (("b", "p-0"), ("a", "p-1"), ("b", "p-2"), ("a", "p-3"))
    raws = [injected(OLD, name) for _, name in names]
    for (space, _), raw in zip(names, raws, strict=True):
        raw["metadata"]["namespace"] = space
    pods = [pod_facts(raw) for raw in raws]
    update = sidecarset_facts(sidecarset()).update
    for some in (pods, pods[::-1]):
        assert [p.name for p in rollout_order(some, some, update)] == ["p-1", "p-3", "p-0", "p-2"]


def test_a_star_scatters_by_every_value() -> None:
    """Two of five carry a value of their own each: neither is neighbour of the other."""
    new = sidecarset(
        update={"maxUnavailable": 5, "scatterStrategy": [{"key": "zone", "value": "*"}]}
    )
    zones = ["a", "a", "b", "b", "b"]
    pods = [injected(OLD, f"p-{at}", labels={"zone": zone}) for at, zone in enumerate(zones)]
    plain = [injected(OLD, f"p-{at}") for at in range(5)]
    assert moved(plan(new, plain)) == [f"p-{at}" for at in range(5)]
    assert moved(plan(new, pods)) != [f"p-{at}" for at in range(5)]
