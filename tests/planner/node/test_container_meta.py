"""Environment from metadata: META-1 to META-4."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.node.container_meta import (
    StartedContainer,
    is_reported,
    report_text,
    stale_containers,
)
from gitkruise.planner.pods.container_hashes import environment_hash, plain_hash
from gitkruise.wire.primitives.json_text import read_json

STATE = {
    "revision": "web-new",
    "updateTimestamp": "2026-07-02T10:00:00Z",
    "updateEnvFromMetadata": True,
    "lastContainerStatuses": None,
}


def updating(text: str) -> dict[str, str]:
    return {"apps.kruise.io/inplace-update-state": text}


def pod(*, ready: str = "False", colour: str = "blue", gate: bool = True, **meta: Any) -> PodFacts:
    meta = {"annotations": updating(json.dumps(STATE)), **meta}
    variable = {"fieldRef": {"fieldPath": "metadata.labels['colour']"}}
    condition = {"type": "InPlaceUpdateReady", "status": ready}
    return pod_facts(
        {
            "metadata": {"name": "p", "namespace": "shop", "labels": {"colour": colour}, **meta},
            "spec": {
                "containers": [
                    {
                        "name": "app",
                        "image": "app:v1",
                        "env": [
                            {"name": "COLOUR", "valueFrom": variable},
                            {"name": "FIXED", "value": "x"},
                            {"name": "SIDECARSET_VERSION", "valueFrom": variable},
                        ],
                    },
                    {"name": "side", "image": "side:v1"},
                ],
                "readinessGates": [{"conditionType": "InPlaceUpdateReady"}] if gate else [],
            },
            "status": {"conditions": [condition]},
        }
    )


def started(colour: str = "blue", image: str = "app:v1") -> tuple[StartedContainer, ...]:
    app = StartedContainer(
        name="app",
        id="containerd://a",
        restarts=1,
        plain=plain_hash("app", image),
        environment=environment_hash({"COLOUR": colour}),
    )
    side = plain_hash("side", "side:v1")
    return app, replace(
        app, name="side", id="containerd://s", plain=side, environment=environment_hash({})
    )


UNHASHED = replace(started("red")[0], plain=None)
STALE: dict[str, tuple[PodFacts, tuple[StartedContainer, ...], tuple[str, ...]]] = {
    "META-3: the label changed": (pod(), started("red"), ("app",)),
    "the environment is current": (pod(), started(), ()),
    "the update changes no environment": (
        pod(annotations=updating(json.dumps({**STATE, "updateEnvFromMetadata": False}))),
        started("red"),
        (),
    ),
    "no update": (pod(annotations={}), started("red"), ()),
    "an unreadable update": (pod(annotations=updating("{")), started("red"), ()),
    "in service": (pod(ready="True"), started("red"), ()),
    "META-3: kubelet restarts it for its image": (pod(), started("red", "app:v0"), ()),
    "no hash from the runtime": (pod(), (UNHASHED,), ("app",)),
    "terminating": (pod(deletionTimestamp="2026-07-02T10:00:00Z"), started("red"), ()),
    "the label is gone": (pod(labels={}), started(), ("app",)),
}


@pytest.mark.parametrize("row", STALE)
def test_a_container_is_restarted(row: str) -> None:
    facts, containers, expected = STALE[row]
    assert stale_containers(facts, containers) == expected


def test_meta_2_the_report_lists_containers_by_name() -> None:
    app, side = read_json(report_text(reversed(started())))["containers"]
    assert (app["name"], app["containerID"], app["restartCount"]) == ("app", "containerd://a", 1)
    assert app["hashes"]["plainHash"] == plain_hash("app", "app:v1")
    assert (
        app["hashes"]["extractedEnvFromMetadataHash"]
        != side["hashes"]["extractedEnvFromMetadataHash"]
    )


def test_meta_1_pods_of_update_in_place_are_reported() -> None:
    assert is_reported(pod())
    assert is_reported(pod(gate=False, annotations={"kruise.io/sidecarset-hash": "{}"}))
    assert not is_reported(pod(gate=False))
