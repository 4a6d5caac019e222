"""Whole SidecarSet rollouts on the model cluster, written down line by line in tests/golden."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import pytest

from gitkruise.model.workloads.revision import REVISION
from gitkruise.wire.primitives.names import Obj
from tests.traces import render_text
from tests.worlds import Lab, cloneset, container, sidecarset

RolloutCase = tuple[dict[str, Any], list[tuple[str, dict[str, Any]]]]
BAD: Final = "mesh:v2-bad"
EMPTY: Final = "mesh-empty:v1"


def mesh(image: str, **more: Any) -> dict[str, Any]:
    return {"containers": [container("mesh", image, **more)]}


def hot(image: str, empty: str = EMPTY) -> dict[str, Any]:
    strategy = {"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": empty}
    return mesh(image, upgradeStrategy=strategy)


def strategy(**fields: Any) -> dict[str, Any]:
    return {"updateStrategy": fields}


# The SidecarSet as first applied, then (what happens, the change of its spec). Four pods.
ROLLOUTS: Final[dict[str, RolloutCase]] = {
    "cold-by-partition": (
        sidecarset(**mesh("mesh:v1")),
        [
            ("held at half", {**mesh("mesh:v2"), **strategy(maxUnavailable=1, partition="50%")}),
            ("partition 0", strategy(partition=0)),
        ],
    ),
    "bad-image-and-back": (
        sidecarset(**mesh("mesh:v1")),
        [
            ("an image that never runs stops at the first pod", mesh(BAD)),
            ("back, and the pod that hung is repaired", mesh("mesh:v1")),
        ],
    ),
    "more-than-images": (
        sidecarset(**mesh("mesh:v1")),
        [("an argument changed: no pod follows", mesh("mesh:v2", args=["--verbose"]))],
    ),
    "hot": (
        sidecarset(**hot("mesh:v1"), **strategy(maxUnavailable=2)),
        [
            ("hot to v2", hot("mesh:v2")),
            ("hot to v3, which never comes up", hot("mesh:v3-bad")),
            ("rolled back in the middle: v2 serves on", hot("mesh:v2")),
            ("hot to v4", hot("mesh:v4")),
            ("another placeholder, by budget", hot("mesh:v4", "mesh-empty:v2")),
        ],
    ),
}


@pytest.mark.parametrize("name", ROLLOUTS)
def test_rollout(name: str, golden: Callable[[str, str], None]) -> None:
    first, changes = ROLLOUTS[name]
    lab = Lab()
    lab.apply(first)
    lab.run(10)
    lab.apply(cloneset(replicas=4))
    text = f"# pods are born with their sidecar\n{render_text(lab.run(600))}"
    for title, spec in changes:
        lab.patch(first, {"spec": spec})
        text += f"\n# {title}\n{render_text(lab.run(600))}"
        assert_complete(lab, first)
    golden(f"sidecarset-{name}.txt", text)


def assert_complete(lab: Lab, first: Obj) -> None:
    """Every matched pod still serves: it has its app, and a mesh that runs."""
    status = lab.get(first)["status"]
    assert status["matchedPods"] == len(lab.pods()) == 4
    for pod in lab.pods():
        assert pod["spec"]["containers"][-1]["name"] == "app"


def images(lab: Lab) -> set[tuple[str, ...]]:
    return {tuple(c["image"] for c in pod["spec"]["containers"]) for pod in lab.pods()}


def test_a_rollback_in_the_middle_ends_where_it_began() -> None:
    """Sides of a pair may be swapped; one serves what git says, the other one rests."""
    lab, raw = Lab(), sidecarset(**hot("mesh:v1"), **strategy(maxUnavailable=1))
    lab.apply(raw)
    lab.run(10)
    lab.apply(cloneset(replicas=3))
    lab.run(600)
    lab.patch(raw, {"spec": hot("mesh:v2-bad")})
    lab.run(600)
    assert ("mesh:v1", "mesh:v2-bad", "app:v1") in images(lab), "one pod is in the middle"
    lab.patch(raw, {"spec": hot("mesh:v1")})
    lab.run(600)
    assert images(lab) == {("mesh:v1", EMPTY, "app:v1")}
    status = lab.get(raw)["status"]
    assert (status["updatedPods"], status["readyPods"]) == (3, 3)


@pytest.mark.slow
def test_together_with_a_cloneset_nobody_undoes_the_other() -> None:
    """Both change the same pods in place in one round; each keeps its own state on the pod."""
    lab, raw, web = Lab(), sidecarset(**strategy(maxUnavailable=2)), cloneset(replicas=5)
    lab.apply(raw)
    lab.run(10)
    lab.apply(web)
    lab.run(600)
    uids = {pod["metadata"]["uid"] for pod in lab.pods()}
    lab.patch(raw, {"spec": mesh("mesh:v2")})
    template = {"template": {"spec": {"containers": [container(image="app:v2")]}}}
    lab.patch(web, {"spec": template})
    lab.run(3600)
    assert images(lab) == {("mesh:v2", "app:v2")}
    assert {pod["metadata"]["uid"] for pod in lab.pods()} == uids, "everything was in place"
    for pod in lab.pods():
        notes = pod["metadata"]["annotations"]
        assert '"app"' in notes["apps.kruise.io/inplace-update-state"]
        assert '"mesh"' in notes["kruise.io/sidecarset-inplace-update-state"]
    lab.patch(raw, {"spec": mesh("mesh:v3")})
    lab.run(600)
    lab.patch(web, {"spec": {"template": {"spec": {"containers": [container(image="app:v3")]}}}})
    lab.run(600)
    assert images(lab) == {("mesh:v3", "app:v3")}
    assert lab.get(web)["status"]["updatedAvailableReplicas"] == 5
    assert lab.get(raw)["status"]["updatedReadyPods"] == 5


def test_side_70_pods_of_other_namespaces_are_left_alone() -> None:
    lab = Lab()
    chosen = {"matchLabels": {"kubernetes.io/metadata.name": "shop"}}
    raw = sidecarset(namespaceSelector=chosen)
    lab.apply(raw)
    lab.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "bank", "namespace": ""}}
    )
    lab.run(10)
    web = cloneset(replicas=2)
    lab.apply(web)
    lab.apply({**web, "metadata": {"name": "web", "namespace": "bank"}})
    lab.run(600)
    assert lab.get(raw)["status"]["matchedPods"] == 2
    assert images(lab) == {("mesh:v1", "app:v1")}


def test_a_deleted_set_leaves_its_sidecars_running() -> None:
    lab, raw = Lab(), sidecarset()
    lab.apply(raw)
    lab.run(10)
    lab.apply(cloneset(replicas=2))
    lab.run(600)
    lab.delete(raw)
    lab.run(600)
    assert images(lab) == {("mesh:v1", "app:v1")}
    revisions = lab.world.objects(REVISION, "kruise-system")
    assert revisions == [], "they go with their owner"
