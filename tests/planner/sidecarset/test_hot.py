"""Hot upgrade, state by state: the transition table and the worked example of the behaviour."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gitkruise.model.planning.plan import Hold, Patch, Plan
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import (
    EMPTY,
    hot,
    injected,
    moved,
    plan,
    reasons,
    running,
    sidecarset,
)

VERSION: Final = ("version.sidecarset.kruise.io/", "versionalt.sidecarset.kruise.io/")
WORKING: Final = "kruise.io/sidecarset-working-hotupgrade-container"


def body_of(made: Plan, name: str = "p") -> dict[str, Any]:
    """Body of the one patch of the pod itself."""
    (patch,) = (a for a in made.actions if isinstance(a, Patch) and a.key.name == name)
    return dict(patch.steps[0].body)


def taken(raw: Obj, made: Plan, *, name: str = "p", restarted: bool = True) -> dict[str, Any]:
    """The pod after the patch, its changed containers restarted and ready (or not)."""
    body = body_of(made, name)
    images = {c["name"]: c["image"] for c in body.get("spec", {}).get("containers", ())}
    containers = [{**c, "image": images.get(c["name"], c["image"])} for c in _containers(raw)]
    statuses = raw["status"]["containerStatuses"]
    if restarted:
        statuses = [running(c) for c in containers]
    notes = {**raw["metadata"]["annotations"], **body["metadata"]["annotations"]}
    return {
        **raw,
        "metadata": {**raw["metadata"], "annotations": notes},
        "spec": {**raw["spec"], "containers": containers},
        "status": {**raw["status"], "containerStatuses": statuses},
    }


def _containers(raw: Obj) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = raw["spec"]["containers"]
    return found


def with_ready(raw: Obj, name: str, *, ready: bool) -> dict[str, Any]:
    """The pod with one container (and so itself) ready or not."""
    statuses = [
        {**s, "ready": ready} if s["name"] == name else s
        for s in raw["status"]["containerStatuses"]
    ]
    condition = {**raw["status"]["conditions"][0], "status": str(ready)}
    status = {**raw["status"], "containerStatuses": statuses, "conditions": [condition]}
    return {**raw, "status": status}


def row(raw: Obj) -> tuple[Any, ...]:
    """(image 1, image 2, working, version 1, version 2, alt 1, alt 2)."""
    notes: Mapping[str, str] = raw["metadata"]["annotations"]
    images = [c["image"] for c in _containers(raw)[1:]]
    marks = [notes[prefix + name] for prefix in VERSION for name in ("side-1", "side-2")]
    return (*images, notes[WORKING], *marks)


def counters(made: Plan) -> tuple[int, ...]:
    status = made.status or {}
    names = ("matchedPods", "updatedPods", "readyPods", "updatedReadyPods")
    return tuple(status.get(name, 0) for name in names)


def at(version: int, resource_version: str = "1000", **more: Any) -> dict[str, Any]:
    return sidecarset(hot(f"side:{version}"), version=resource_version, **more)


def test_the_worked_example() -> None:
    """From version 1 to 2 to 3, the two containers taking turns."""
    first, second = '{"side":"side-1"}', '{"side":"side-2"}'
    v1, v2, v3 = at(1), at(2), at(3, "2000")
    pod = injected(v1)
    assert row(pod) == ("side:1", EMPTY, first, "1", "0", "0", "1")
    assert counters(plan(v1, [pod])) == (1, 1, 1, 1)

    made = plan(v2, [pod])
    assert counters(made) == (1, 0, 1, 0), "status is what was observed before the write"
    status_pod = taken(pod, made, restarted=False)
    assert row(status_pod) == ("side:1", "side:2", second, "1", "1000", "1000", "1")
    assert counters(plan(v2, [status_pod])) == (1, 1, 0, 0)
    assert moved(plan(v2, [status_pod])) == [], "the new side does not run yet"

    up = taken(pod, made)
    made = plan(v2, [up])
    assert counters(made) == (1, 1, 0, 0)
    flipped = taken(up, made, restarted=False)
    assert row(flipped) == (EMPTY, "side:2", second, "0", "1000", "1000", "0")
    assert counters(plan(v2, [flipped])) == (1, 1, 0, 0), "the old side still runs"
    rested = taken(up, made)
    assert counters(plan(v2, [rested])) == (1, 1, 1, 1)
    assert plan(v2, [rested]).actions == ()

    made = plan(v3, [rested])
    up = taken(rested, made)
    assert row(up) == ("side:3", "side:2", first, "2000", "1000", "1000", "2000")
    rested = taken(up, plan(v3, [up]))
    assert row(rested) == ("side:3", EMPTY, first, "2000", "0", "0", "2000")
    assert counters(plan(v3, [rested])) == (1, 1, 1, 1)


def test_a_newer_image_replaces_a_side_that_never_came_up() -> None:
    pod = injected(at(1))
    stuck = with_ready(taken(pod, plan(at(2), [pod])), "side-2", ready=False)
    after = taken(stuck, plan(at(3, "2000"), [stuck]))
    assert row(after)[:3] == ("side:1", "side:3", '{"side":"side-2"}')
    assert row(after)[3:] == ("1", "2000", "2000", "1")


def test_quirk_a_rollback_in_the_middle_takes_the_new_side_back() -> None:
    """OpenKruise leaves version 2 there and, once it is up, resets the serving version 1."""
    pod = injected(at(1))
    stuck = with_ready(taken(pod, plan(at(2), [pod])), "side-2", ready=False)
    back = at(1, "3000")
    after = with_ready(taken(stuck, plan(back, [stuck])), "side-2", ready=True)
    assert row(after)[:3] == ("side:1", EMPTY, '{"side":"side-1"}')
    assert row(after)[3:] == ("1", "0", "0", "1")
    assert counters(plan(back, [after])) == (1, 1, 1, 1)
    assert plan(back, [after]).actions == ()


def test_a_rollback_after_both_sides_are_up_serves_the_old_one_again() -> None:
    pod = injected(at(1))
    both = taken(pod, plan(at(2, update={"paused": False}), [pod]))
    paused = at(2, update={"paused": True})
    assert plan(paused, [both]).actions == (), "both versions keep running while paused"
    back = at(1, "3000")
    flipped = taken(both, plan(back, [both]))  # the flip to version 2 is due first
    assert row(flipped)[:3] == (EMPTY, "side:2", '{"side":"side-2"}')
    after = taken(flipped, plan(back, [flipped]))
    assert row(after)[:3] == ("side:1", "side:2", '{"side":"side-1"}')
    rested = taken(after, plan(back, [after]))
    assert row(rested)[:3] == ("side:1", EMPTY, '{"side":"side-1"}')


@pytest.mark.parametrize("update", [{"paused": True}, {"type": "NotUpdate"}])
def test_nobody_flips_while_paused_or_never_updating(update: dict[str, Any]) -> None:
    pod = injected(at(1))
    up = taken(pod, plan(at(2), [pod]))
    assert plan(at(2, update=update), [up]).actions == ()


def test_a_flip_waits_for_the_new_side() -> None:
    pod = injected(at(1))
    unready = with_ready(taken(pod, plan(at(2), [pod])), "side-2", ready=False)
    made = plan(at(2), [unready])
    assert made.actions == ()
    assert reasons(made) == {"p": Hold.UPDATING}
    assert made.held[0].detail == "waits for container side-2 to be ready"


def test_a_flip_of_an_unready_pod_asks_only_for_the_containers_that_stay() -> None:
    """The idle side may crash: it is replaced anyway."""
    pod = injected(at(1))
    crashing = with_ready(taken(pod, plan(at(2), [pod])), "side-1", ready=False)
    assert moved(plan(at(2), [crashing])) == ["p"]


def test_a_cold_change_beside_leaves_the_pair_alone() -> None:
    def both(cold: str) -> Obj:
        return sidecarset(hot(), {"name": "log", "image": cold})

    pod = injected(both("log:1"))
    body = body_of(plan(both("log:2"), [pod]))
    assert body["spec"]["containers"] == [{"name": "log", "image": "log:2"}]
    assert WORKING not in body["metadata"]["annotations"]


OTHER_EMPTY: Final = [hot(empty="e:1")]


def placeholder(**update: Any) -> dict[str, Any]:
    return sidecarset(*OTHER_EMPTY, update=update)


# update strategy, pods, of which so many are not ready; pods whose placeholder changes now
FLIPS: Final = {
    "one at a time by default": ({}, 5, 0, 1),
    "maxUnavailable": ({"maxUnavailable": 2}, 5, 0, 2),
    "partition": ({"maxUnavailable": 5, "partition": 3}, 5, 0, 2),
    "pods that are down cost nothing": ({"maxUnavailable": 1}, 5, 2, 3),
    "a selector": ({"selector": {"matchLabels": {"no": "body"}}}, 5, 0, 0),
    "paused": ({"paused": True}, 5, 0, 0),
}


@pytest.mark.parametrize(("update", "count", "down", "now"), FLIPS.values(), ids=FLIPS)
def test_quirk_a_new_placeholder_respects_partition_and_max_unavailable(
    update: dict[str, Any], count: int, down: int, now: int
) -> None:
    """OpenKruise flips the idle containers of all matched pods together."""
    pods = [injected(at(1), f"p-{n}") for n in range(count)]
    for n in range(down):
        pods[n] = with_ready(pods[n], "main", ready=False)
        pods[n]["status"]["containerStatuses"][0]["ready"] = True
    made = plan(placeholder(**update), pods)
    assert len(moved(made)) == now


def test_a_pod_whose_placeholder_restarts_counts_as_down() -> None:
    pods = [injected(at(1), f"p-{n}") for n in range(3)]
    new = placeholder()
    made = plan(new, pods)
    (first,) = moved(made)
    number = int(first.removeprefix("p-"))
    pods[number] = taken(pods[number], made, name=first, restarted=False)
    assert moved(plan(new, pods)) == []
    pods[number] = taken(injected(at(1), first), made, name=first)
    assert len(moved(plan(new, pods))) == 1
