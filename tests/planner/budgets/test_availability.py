"""Availability of a pod as budgets count it: readiness, marks, images by digest, updates."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.budgets.availability import is_available
from gitkruise.wire.primitives.names import Obj
from tests.pods import raw_pod, stamp

ONE, TWO = "sha256:" + "1" * 64, "sha256:" + "2" * 64
STATE = "apps.kruise.io/inplace-update-state"
GRACE = "apps.kruise.io/inplace-update-grace"


def state(**more: Any) -> dict[str, str]:
    """An update in place of the container main, which ran the image img-0 before."""
    last = {"main": {"imageID": "img-0"}}
    text = {"revision": "web-new", "updateTimestamp": stamp(-60), "lastContainerStatuses": last}
    return {STATE: json.dumps({**text, **more})}


def statuses(image: str, image_id: str) -> list[Obj]:
    return [{"name": "main", "image": image, "imageID": image_id, "ready": True}]


def sidecars(image: str, last: str, runs: str = "mesh:v1") -> PodFacts:
    """A pod with the container mesh of a SidecarSet: its image, what it ran before, and runs."""
    raw = raw_pod("p", annotations={
        "kruise.io/sidecarset-injected-list": "mesh",
        "kruise.io/sidecarset-inplace-update-state": json.dumps({"mesh": {
            "revision": "r", "updateTimestamp": stamp(-60),
            "lastContainerStatuses": {"mesh": {"imageID": last}},
        }}),
    })  # fmt: skip
    env = [{"name": "IS_INJECTED", "value": "true"}]
    raw["spec"]["containers"].append({"name": "mesh", "image": image, "env": env})
    shown = {"name": "mesh", "image": runs, "imageID": "mesh-1", "ready": True}
    raw["status"]["containerStatuses"].append(shown)
    return pod_facts(raw)


def by_digest(wanted: str, runs: str) -> PodFacts:
    containers = [{"name": "main", "image": f"nginx@{wanted}"}]
    shown = statuses(f"nginx@{runs}", f"docker.io/library/nginx@{runs}")
    return pod_facts(raw_pod("p", containers=containers, containerStatuses=shown))


@pytest.mark.parametrize(
    ("pod", "expected"),
    [
        pytest.param(pod_facts(raw_pod("p")), True, id="ready"),
        pytest.param(pod_facts(raw_pod("p", ready=False)), False, id="not ready"),
        pytest.param(pod_facts(raw_pod("p", phase="Pending")), False, id="not running"),
        pytest.param(
            pod_facts(raw_pod("p", labels={"unavailable-pod.fluid.io/x": ""})), False, id="PUB-25"
        ),
        pytest.param(by_digest(ONE, ONE), True, id="PUB-26 digest"),
        pytest.param(by_digest(TWO, ONE), False, id="PUB-26 another digest"),
        pytest.param(pod_facts(raw_pod("p", annotations=state())), True, id="PUB-26 updated"),
        pytest.param(
            pod_facts(
                raw_pod("p", annotations=state(), containerStatuses=statuses("nginx:1.24", "img-0"))
            ),
            False,
            id="PUB-26 old image",
        ),
        pytest.param(
            pod_facts(raw_pod("p", annotations=state(nextContainerImages={"b": "b:v2"}))),
            False,
            id="PUB-26 a batch is left",
        ),
        pytest.param(
            pod_facts(raw_pod("p", annotations={**state(), GRACE: "{}"})), False, id="PUB-26 grace"
        ),
        pytest.param(
            pod_facts(raw_pod("p", annotations={STATE: "{"})), False, id="PUB-26 unreadable"
        ),
        pytest.param(sidecars("mesh:v2", "mesh-1"), False, id="PUB-26 sidecar not replaced"),
        pytest.param(sidecars("mesh:v2", "mesh-0"), True, id="PUB-26 sidecar replaced"),
        pytest.param(sidecars("mesh:v1", "mesh-1"), True, id="PUB-26 the same sidecar image"),
    ],
)
def test_available(pod: PodFacts, expected: bool) -> None:
    assert is_available(pod) is expected
