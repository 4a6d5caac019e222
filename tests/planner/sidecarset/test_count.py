"""Number of pods that a round of a SidecarSet changes: SIDE-16 to SIDE-32."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Hold
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import COLD, injected, moved, plan, reasons, sidecarset

OLD: Final = sidecarset({**COLD, "image": "side:0"})
OTHER: Final = sidecarset({**COLD, "image": "side:0", "env": [{"name": "A", "value": "1"}]})


def fleet(total: int, updated: int, up: int, new: Obj) -> Iterator[Obj]:
    """Updated pods first, of which `up` are ready; the others run what was before."""
    for at in range(total):
        raw = new if at < updated else OLD
        yield injected(raw, f"p-{at:04}", ready=at < up or at >= updated)


# update strategy, (pods, updated, updated and ready), pods that change now
ROWS: Final = {
    "SIDE-16": ({"maxUnavailable": 10}, (100, 30, 26), 6),
    "SIDE-17": ({"maxUnavailable": "10%"}, (1000, 300, 260), 60),
    "SIDE-18": ({"maxUnavailable": "5%"}, (1000, 300, 250), 0),
    "SIDE-19": ({"maxUnavailable": 100}, (100, 30, 27), 70),
    "SIDE-20": ({"maxUnavailable": 100, "partition": 180}, (1000, 800, 760), 20),
    "SIDE-21": ({"maxUnavailable": 100, "partition": 100}, (1000, 800, 760), 60),
    "SIDE-22": ({"maxUnavailable": 100, "partition": "18%"}, (1000, 800, 760), 20),
    "SIDE-23": ({"maxUnavailable": 100, "partition": "10%"}, (1000, 800, 760), 60),
    "SIDE-26": ({"maxUnavailable": "5%"}, (5, 0, 0), 1),
    "SIDE-27": ({"maxUnavailable": 5, "partition": "99%"}, (5, 0, 0), 1),
    "SIDE-28": ({"maxUnavailable": 5, "partition": "1%"}, (5, 0, 0), 4),
    "SIDE-31": ({"partition": 1}, (1, 0, 0), 0),
    "SIDE-32 NotUpdate": ({"type": "NotUpdate"}, (1, 0, 0), 0),
    "SIDE-32 paused": ({"paused": True}, (1, 0, 0), 0),
    "100% keeps all": ({"maxUnavailable": 5, "partition": "100%"}, (5, 0, 0), 0),
    "0 keeps ready pods": ({"maxUnavailable": 0}, (5, 0, 0), 0),
    "one by default": ({}, (5, 0, 0), 1),
    "a text without % is a percentage": ({"maxUnavailable": "40"}, (5, 0, 0), 2),
    "all are updated": ({}, (3, 3, 3), 0),
}  # fmt: skip


@pytest.mark.parametrize(("update", "counts", "now"), ROWS.values(), ids=ROWS)
def test_row(update: dict[str, Any], counts: tuple[int, int, int], now: int) -> None:
    new = sidecarset(update=update)
    made = plan(new, list(fleet(*counts, new)))
    assert len(moved(made)) == now
    held = reasons(made)
    assert len(held) == counts[0] - counts[1] - now, "every other old pod has its reason"
    assert made.status is not None
    assert made.status["updatedPods"] == counts[1]
    assert made.status.get("updatedReadyPods", 0) == counts[2]


def test_side_24_a_selector_updates_what_it_matches() -> None:
    new = sidecarset(update={"maxUnavailable": 100, "selector": {"matchLabels": {"pick": "me"}}})
    pods = [
        injected(OLD, f"p-{at:03}", labels={"pick": "me"} if at < 30 else {}) for at in range(100)
    ]
    made = plan(new, pods)
    assert sorted(moved(made)) == [f"p-{at:03}" for at in range(30)]
    assert set(reasons(made).values()) == {Hold.NOT_SELECTED}


def test_side_25_no_pod_that_differs_in_more_than_images_changes() -> None:
    made = plan(sidecarset(update={"maxUnavailable": 100}), [injected(OTHER, "p")], old=[OTHER])
    assert moved(made) == []
    assert reasons(made) == {"p": Hold.CANNOT_UPDATE}
    assert made.held[0].detail == "containers.side.env changed"
    assert [e.reason for e in made.events] == ["NotUpgradablePods"]
    assert made.events[0].message.startswith("1 pods")


def test_side_29_those_that_can_change_do() -> None:
    new = sidecarset(update={"maxUnavailable": "50%"})
    raws = [OLD, OTHER] * 50
    made = plan(new, [injected(raw, f"p-{at:03}") for at, raw in enumerate(raws)])
    assert sorted(moved(made)) == [f"p-{at:03}" for at in range(0, 100, 2)]
    assert list(reasons(made).values()).count(Hold.CANNOT_UPDATE) == 50


def test_side_30_pods_that_are_not_ready_cost_nothing() -> None:
    pending = injected(OLD, "p", ready=False, phase="Pending")
    assert moved(plan(sidecarset(), [pending])) == ["p"]
    assert moved(plan(sidecarset(update={"maxUnavailable": 0}), [pending])) == ["p"]


def test_kept_pods_are_those_that_could_change() -> None:
    """Quirk 26, kept: 50 of 100 cannot, so a partition of 50 leaves no pod."""
    new = sidecarset(update={"maxUnavailable": 100, "partition": 50})
    raws = [OLD, OTHER] * 50
    made = plan(new, [injected(raw, f"p-{at:03}") for at, raw in enumerate(raws)])
    assert moved(made) == []


@pytest.mark.parametrize("update", [{"partition": "a third"}, {"maxUnavailable": "half"}])
def test_an_amount_nobody_can_read_moves_no_pod(update: dict[str, Any]) -> None:
    made = plan(sidecarset(update=update), [injected(OLD, "p")])
    assert moved(made) == []
    assert [e.reason for e in made.events] == ["FailedUpdate"]


def test_quirk_a_push_into_a_running_rollout_counts_those_already_asked_to_change() -> None:
    """OpenKruise forgets a pod that was patched for the last spec and has not restarted yet, and
    takes down another one as well."""
    middle = sidecarset({**COLD, "image": "side:0.5"})
    status_pod = injected(middle, "p-0")
    status_pod["status"]["containerStatuses"][1] |= {"image": "side:0", "imageID": "old-id"}
    status_pod["metadata"]["annotations"]["kruise.io/sidecarset-inplace-update-state"] = (
        '{"ss":{"revision":"h","updateTimestamp":"2026-07-02T09:59:59Z",'
        '"lastContainerStatuses":{"side":{"imageID":"old-id"}}}}'
    )
    made = plan(sidecarset(), [status_pod, injected(OLD, "p-1")])
    assert moved(made) == []
    assert reasons(made) == {"p-0": Hold.UPDATING, "p-1": Hold.BUDGET}
