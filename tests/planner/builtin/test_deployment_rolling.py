"""The arithmetic of a Deployment's rollout: bounds, one step, whole rollouts, rescaling."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.planning.amounts import bounds
from gitkruise.planner.builtin.proportional_scaling import (
    Size,
    clean_unhealthy,
    grow_new,
    proportional,
    rescale,
    shrink_old,
)

BOUNDS = {
    "ROLL-1": ("0%", "0%", 0, (0, 1)),
    "ROLL-2": ("39%", "39%", 10, (4, 3)),
    "ROLL-3": (None, "39%", 10, (0, 3)),
    "ROLL-4": ("39%", None, 10, (4, 0)),
    "ROLL-5": (None, None, 10, (0, 1)),
    "ROLL-6": ("25%", "25%", 4, (1, 1)),
    "ROLL-7": ("25%", "25%", 3, (1, 0)),
}


@pytest.mark.parametrize(("surge", "down", "replicas", "want"), BOUNDS.values(), ids=BOUNDS)
def test_bounds(surge: Any, down: Any, replicas: int, want: tuple[int, int]) -> None:
    rolling = {"maxSurge": surge, "maxUnavailable": down}
    assert bounds({"rollingUpdate": rolling}, replicas) == want


def test_roll_8_words_are_no_bounds() -> None:
    with pytest.raises(ValueError, match="oops"):
        bounds({"rollingUpdate": {"maxSurge": "oops"}}, 10)


GROW = {  # (wanted, surge, old, new, next size of the new one)
    "ROLL-9": (10, 0, 10, 0, 0),
    "ROLL-10": (10, 2, 10, 0, 2),
    "ROLL-11": (10, 2, 5, 0, 7),
    "ROLL-12": (10, 2, 10, 2, 2),
    "ROLL-13": (10, 2, 2, 11, 10),
}


@pytest.mark.parametrize(("wanted", "surge", "old", "new", "size"), GROW.values(), ids=GROW)
def test_the_new_one_grows(wanted: int, surge: int, old: int, new: int, size: int) -> None:
    assert grow_new(new, old + new, wanted, surge) == size


def one(name: str, replicas: int, available: int | None = None) -> Size:
    return Size(
        name=name, replicas=replicas, available=replicas if available is None else available
    )


SHRINK = {  # (unavailable, old (available), new (available), next size of the old one)
    "ROLL-14": (1, (10, 10), (0, 0), 9),
    "ROLL-15": (2, (10, 10), (0, 0), 8),
    "ROLL-16": (2, (10, 8), (0, 0), 8),
    "ROLL-17": (2, (10, 9), (0, 0), 8),
    "ROLL-18": (2, (8, 8), (2, 0), 8),
}


@pytest.mark.parametrize(("down", "old", "new", "size"), SHRINK.values(), ids=SHRINK)
def test_old_ones_shrink(down: int, old: tuple[int, int], new: tuple[int, int], size: int) -> None:
    found = shrink_old(one("new", *new), [one("old", *old)], 10, down)
    assert found.get("old", old[0]) == size


@pytest.mark.parametrize(
    ("room", "size"), [(1, 9), (3, 8), (0, 10)], ids=["ROLL-19a", "ROLL-19b", "ROLL-19c"]
)
def test_unhealthy_pods_go_first(room: int, size: int) -> None:
    sizes = {"old": 10}
    clean_unhealthy([one("old", 10, 8)], sizes, room)
    assert sizes["old"] == size


TRACES = {
    "ROLL-21": (10, 2, 1, "9,2 9,3 6,3 6,6 3,6 3,9 0,9 0,10"),
    "ROLL-22": (10, 3, 2, "8,3 8,5 3,5 3,10 0,10"),
    "ROLL-23": (4, 1, 1, "3,1 3,2 1,2 1,4 0,4"),
    "ROLL-24": (3, 1, 0, "3,1 2,1 2,2 1,2 1,3 0,3"),
    "ROLL-25": (2, 0, 1, "1,0 1,1 0,1 0,2"),
    "ROLL-26": (1, 1, 0, "1,1 0,1"),
}


def roll(wanted: int, surge: int, down: int) -> str:
    """Sizes after each sync, every pod available between syncs."""
    old = wanted
    new = grow_new(0, old, wanted, surge)
    old = shrink_old(one("new", new, 0), [one("old", old)], wanted, down).get("old", old)
    seen = [f"{old},{new}"]
    for _ in range(4 * wanted + 4):
        size = grow_new(new, old + new, wanted, surge)
        if size == new:
            old_size = shrink_old(one("new", new), [one("old", old)], wanted, down).get("old", old)
            if old_size == old:
                return " ".join(seen)
            old = old_size
        new = size
        seen.append(f"{old},{new}")
    raise AssertionError(seen)


@pytest.mark.parametrize(("wanted", "surge", "down", "trace"), TRACES.values(), ids=TRACES)
def test_whole_rollouts(wanted: int, surge: int, down: int, trace: str) -> None:
    assert roll(wanted, surge, down) == trace


@given(st.integers(1, 60), st.integers(0, 20), st.integers(0, 20))
def test_every_rollout_ends_and_keeps_its_bounds(wanted: int, surge: int, down: int) -> None:
    down = min(down, wanted)
    if not surge and not down:
        down = 1
    steps = [tuple(map(int, step.split(","))) for step in roll(wanted, surge, down).split()]
    assert steps[-1] == (0, wanted)
    assert all(sum(step) <= wanted + surge for step in steps)


PROPORTIONAL: dict[
    str, Any
] = {  # (wanted before, wanted, surge before, surge, new, olds) → (new, olds)
    "ROLL-29": (5, 10, 0, 0, 2, [3], (4, [6])),
    "ROLL-30": (5, 3, 0, 0, 2, [3], (1, [2])),
    "ROLL-31": (9, 4, 0, 0, 8, [1], (4, [0])),
    "ROLL-32": (7, 10, 0, 0, 2, [3, 2], (3, [4, 3])),
    "ROLL-33": (13, 8, 0, 0, 2, [8, 3], (1, [5, 2])),
    "ROLL-34": (3, 4, 0, 0, 1, [1, 1], (2, [1, 1])),
    "ROLL-35": (3, 2, 0, 0, 1, [1, 1], (1, [1, 0])),
    "ROLL-36": (4, 5, 0, 0, None, [2, 2], (None, [3, 2])),
    "ROLL-37": (6, 0, 0, 0, 3, [2, 1], (0, [0, 0])),
    "ROLL-40": (10, 20, 2, 2, 6, [6], (11, [11])),
    "ROLL-41": (10, 50, 3, 6, 5, [8], (22, [34])),
    "ROLL-42": (10, 14, 0, 0, None, [7, 3], (None, [10, 4])),
}


@pytest.mark.parametrize("name", PROPORTIONAL)
def test_rescaling_is_proportional(name: str) -> None:
    before, wanted, surge_before, surge, new, olds, (new_size, old_sizes) = PROPORTIONAL[name]

    def size(label: str, replicas: int) -> Size:
        return Size(name=label, replicas=replicas, desired=before, most=before + surge_before)

    fresh = None if new is None else size("new", new)
    found = proportional(fresh, [size(f"old{i}", n) for i, n in enumerate(olds)], wanted, surge)
    assert [found.get(f"old{i}", n) for i, n in enumerate(olds)] == old_sizes
    assert new is None or found["new"] == new_size


ALONE = {
    "ROLL-27": (one("new", 10), [], 12, {"new": 12}),
    "ROLL-28": (one("new", 10), [], 5, {"new": 5}),
    "ROLL-38": (one("new", 0), [one("a", 0), one("b", 0)], 6, {"new": 6}),
    "same size, annotations are refreshed": (None, [one("a", 4)], 4, {"a": 4}),
    "saturated: the rest goes": (
        Size(name="new", replicas=4, available=4, desired=4, most=5),
        [one("a", 1)],
        4,
        {"a": 0},
    ),
}


@pytest.mark.parametrize(("new", "olds", "wanted", "want"), ALONE.values(), ids=ALONE)
def test_rescaling(new: Size | None, olds: list[Size], wanted: int, want: dict[str, int]) -> None:
    assert rescale(new, olds, wanted, 0, recreate=False) == want


def test_roll_39_the_leftover_goes_to_the_largest() -> None:
    new, middle = Size(name="new", replicas=2, most=5), Size(name="a", replicas=1, most=3)
    found = proportional(new, [middle, Size(name="b", replicas=1, most=5)], 5, 0)
    assert found == {"new": 2, "a": 2, "b": 1}


def test_roll_43_nothing_to_add_changes_no_size() -> None:
    new, old = Size(name="new", replicas=2, most=3), Size(name="old", replicas=1, most=3)
    assert rescale(new, [old], 2, 1, recreate=False) == {"new": 2, "old": 1}


def test_quirk_pods_that_are_about_to_go_are_not_counted_as_serving() -> None:
    """The old one was scaled to 5 and its sixth pod still serves: upstream would drop below 5."""
    found = shrink_old(one("new", 3), [one("old", 5, 6)], 6, 1)
    assert found == {"old": 2}
