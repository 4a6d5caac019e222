"""NodeImages: defaults of tags, and entries that no agent can follow (IMG-30 to IMG-32)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.admission.chain import admit
from gitkruise.admission.kruise.node_images import filled_in
from gitkruise.errors import BadRequest, Forbidden
from gitkruise.model.workloads.feature_gates import Gates
from tests.admission.writes import write
from tests.pods import NOW

LIMITS = {"ttlSecondsAfterFinished": 60}


def node_image(*tags: dict[str, Any], name: str = "nginx") -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "NodeImage",
        "metadata": {"name": "n1"},
        "spec": {"images": {name: {"tags": list(tags)}}},
    }


def tag(name: str = "v1", **more: Any) -> dict[str, Any]:
    return {"tag": name, "pullPolicy": LIMITS, **more}


def admitted(obj: dict[str, Any], gates: Gates | None = None) -> Any:
    return filled_in(replace(write(obj), now=NOW), gates or Gates())


def test_tags_are_sorted_and_completed() -> None:
    stored = admitted(node_image(tag("v2", createdAt="2026-01-01T00:00:00Z"), tag("v1")))
    first, second = stored["spec"]["images"]["nginx"]["tags"]
    assert first == {
        "tag": "v1",
        "createdAt": "2026-07-02T10:00:00Z",
        "pullPolicy": {"timeoutSeconds": 600, "backoffLimit": 3, **LIMITS},
    }
    assert second["createdAt"] == "2026-01-01T00:00:00Z"


def test_an_empty_node_image_stays_as_it_is() -> None:
    empty = {**node_image(), "spec": {}}
    assert admitted(empty)["spec"] == {}


BAD = {
    "no name": (node_image(tag(), name=""), "image name can not be empty"),
    "no tag": (node_image(tag("")), "tag of image nginx can not be empty"),
    "twice": (node_image(tag(), tag()), "tags of image nginx can not have duplicate values"),
    "version": (node_image(tag(version=-1)), "version of nginx:v1 must be non-negative"),
    "no ttl": (
        node_image({"tag": "v1"}),
        "pullPolicy.ttlSecondsAfterFinished of nginx:v1 can not be empty",
    ),
    "too many": (
        {**node_image(), "spec": {"images": {f"i{n}": {} for n in range(257)}}},
        "spec.images must hold at most 256 entries",
    ),
}


@pytest.mark.parametrize("name", BAD)
def test_entries_that_no_agent_can_follow_are_rejected(name: str) -> None:
    obj, message = BAD[name]
    with pytest.raises(BadRequest) as raised:
        admitted(obj)
    assert str(raised.value) == message


def test_without_the_gate_nothing_is_admitted() -> None:
    with pytest.raises(Forbidden) as raised:
        admit(write(node_image()), Gates(kruise_daemon=False))
    assert str(raised.value) == (
        'admission webhook "mnodeimage.kb.io" denied the request: '
        "feature-gate KruiseDaemon is not enabled"
    )
