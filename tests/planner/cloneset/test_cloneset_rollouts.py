"""Whole rollouts on the model cluster, written down line by line in tests/golden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from gitkruise.wire.primitives.names import ObjectKey
from tests.traces import render_text
from tests.worlds import Lab, cloneset
from tests.worlds import pod as stranger

RolloutCase = tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]
BAD: Final = "app:v2-bad"


def image(name: str) -> dict[str, Any]:
    containers = [{"name": "app", "image": name}]
    return {"template": {"spec": {"containers": containers}}}


def rolling(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": {"rollingUpdate": fields}}


# The CloneSet as first applied, then (what happens, the change of its spec).
ROLLOUTS: Final[dict[str, RolloutCase]] = {
    "scale": (
        cloneset(replicas=3),
        [("scaled out", {"replicas": 5}), ("scaled in", {"replicas": 2})],
    ),
    "in-place-by-partition": (
        cloneset(replicas=5, maxUnavailable=2),
        [
            ("held at 60%", {**image("app:v2"), **rolling(partition="60%")}),
            ("partition 0", rolling(partition=0)),
        ],
    ),
    "recreate": (
        cloneset(replicas=4, podUpdatePolicy="ReCreate", maxUnavailable=1),
        [("updated", image("app:v2"))],
    ),
    "surge": (
        cloneset(replicas=3, podUpdatePolicy="ReCreate", maxUnavailable=0, maxSurge=1),
        [("updated", image("app:v2"))],
    ),
    "bad-image-and-rollback": (
        cloneset(replicas=5, maxUnavailable=1, partition=3),
        [
            ("a bad image gets stuck", image(BAD)),
            ("rolled back by template and partition", {**image("app:v1"), **rolling(partition=0)}),
        ],
    ),
    "paused-then-resumed": (
        cloneset(replicas=3, maxUnavailable=1, paused=True),
        [("no pod moves", image("app:v2")), ("resumed", rolling(paused=False))],
    ),
}


@pytest.mark.parametrize("name", ROLLOUTS)
def test_rollout(name: str, golden: Callable[[str, str], None]) -> None:
    first, changes = ROLLOUTS[name]
    lab = Lab()
    lab.apply(first)
    text = f"# applied\n{render_text(lab.run(600))}"
    for title, spec in changes:
        lab.patch(first, {"spec": spec})
        text += f"\n# {title}\n{render_text(lab.run(600))}"
    golden(f"cloneset-{name}.txt", text)


def serving(lab: Lab) -> dict[str, int]:
    """Ready pods by image."""
    found: dict[str, int] = {}
    for pod in lab.pods():
        conditions = pod.get("status", {}).get("conditions", ())
        if any(c["type"] == "Ready" and c["status"] == "True" for c in conditions):
            used = pod["spec"]["containers"][0]["image"]
            found[used] = found.get(used, 0) + 1
    return found


def test_a_bad_image_takes_down_no_more_than_allowed() -> None:
    lab, web = Lab(), cloneset(replicas=5, maxUnavailable=2)
    lab.apply(web)
    lab.run(600)
    lab.patch(web, {"spec": image(BAD)})
    lab.run(3600)
    assert serving(lab) == {"app:v1": 3}


def test_a_rollback_heals_only_the_broken_pods() -> None:
    lab, web = Lab(), cloneset(replicas=5, maxUnavailable=2)
    lab.apply(web)
    lab.run(600)
    uids = {p["metadata"]["uid"] for p in lab.pods()}
    lab.patch(web, {"spec": image(BAD)})
    lab.run(3600)
    lab.patch(web, {"spec": image("app:v1")})
    lab.run(3600)
    assert serving(lab) == {"app:v1": 5}
    assert {p["metadata"]["uid"] for p in lab.pods()} == uids
    status = lab.get(web)["status"]
    assert status["currentRevision"] == status["updateRevision"]


def test_after_the_rollout_nothing_is_written() -> None:
    lab, web = Lab(), cloneset(replicas=5)
    lab.apply(web)
    lab.run(600)
    lab.patch(web, {"spec": image("app:v2")})
    lab.run(600)
    version = lab.world.version
    lab.simulation.wake([ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")])
    trace = lab.run(3600)
    assert trace.quiet
    assert lab.world.version == version


def test_a_strangers_pod_with_the_next_name_is_left_alone() -> None:
    """The same uid and generation give the same names, so a taken one must be seen."""
    alone, shared, web = Lab(), Lab(), cloneset(replicas=0)
    for lab in (alone, shared):
        lab.apply(web)
        lab.run(600)
    alone.patch(web, {"spec": {"replicas": 2}})
    alone.run(600)
    taken, other = _names(alone)
    shared.apply(stranger(taken))
    shared.patch(web, {"spec": {"replicas": 2}})
    shared.run(600)
    assert {taken, other} < set(_names(shared))
    owned = {p["metadata"]["name"] for p in shared.pods() if p["metadata"].get("ownerReferences")}
    assert len(owned) == 2
    assert owned & {taken, other} == {other}


def test_names_of_new_pods_do_not_depend_on_other_writes() -> None:
    quiet, busy = Lab(), Lab()
    quiet.apply(cloneset(replicas=3))
    raw = busy.apply(cloneset(replicas=3))
    busy.patch(raw, {"metadata": {"labels": {"x": "y"}}})
    for lab in (quiet, busy):
        lab.run(600)
    assert _names(quiet) == _names(busy)


def _names(lab: Lab) -> list[str]:
    return [p["metadata"]["name"] for p in lab.pods()]
