"""Recorded SidecarSets are stored, and recorded pods admitted, as a real OpenKruise did it."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import pytest

from gitkruise.errors import ApiError
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.sidecarset_revision import sidecarset_revision_data
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.model.workloads.test_sidecarset_hash import ORACLE
from tests.worlds import START, create, empty_world

SPACE: Final = "vec-inj"
ROWS: Final[list[dict[str, Any]]] = [
    json.loads(line) for line in ORACLE.read_text().strip().split("\n")
]
STAMP: Final = re.compile(r'"updateTimestamp":"2026-[^"]*Z"')
PARTS: Final = ("containers", "initContainers", "volumes", "imagePullSecrets", "readinessGates")
RESOURCE: Final = ResourceRef("apps.kruise.io", "v1beta1", "sidecarsets")


@cache
def _ground() -> World:
    world = empty_world()
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
    world.handle(create(world, space), START)
    return world


def prepared(row: dict[str, Any]) -> World:
    """A cluster with the row's SidecarSets, each with the revision its controller would write."""
    world = _ground().fork()
    for one in row["sidecarsets"]:
        name = one["manifest"]["metadata"]["name"]
        if "rejected" in one:
            with pytest.raises(ApiError) as refusal:
                world.handle(create(world, one["manifest"]), START)
            causes = refusal.value.details.causes
            assert {cause.field for cause in causes} == set(one["fields"])
            continue
        world.handle(create(world, one["manifest"]), START)
        stored = world.get(ObjectKey(*SIDECARSET, "", name))
        assert stored is not None
        assert {**stored["spec"], "containers": stored["spec"].get("containers")} == {
            **one["stored"]["spec"],
            "containers": one["stored"]["spec"].get("containers"),
        }
        assert stored["metadata"]["annotations"] == one["stored"]["metadata"]["annotations"]
        latest = revision_name(name, revision_hash(sidecarset_revision_data(stored), 0))
        assert latest == one["latestRevision"]
        world.handle(_status(name, latest), START)
    return world


def _status(name: str, latest: str) -> ApiRequest:
    counts = {"matchedPods": 0, "updatedPods": 0, "readyPods": 0}
    return ApiRequest(
        verb="patch",
        resource=RESOURCE,
        name=name,
        subresource="status",
        body={"status": {**counts, "latestRevision": latest}},
        content_type=MERGE_PATCH,
    )


def tidy(value: Any) -> Any:
    """A creationTimestamp of null and none are one."""
    if isinstance(value, dict):
        return {k: tidy(v) for k, v in value.items() if k != "creationTimestamp" or v is not None}
    return [tidy(item) for item in value] if isinstance(value, list) else value


def by_name(items: Sequence[Obj]) -> list[Obj]:
    return sorted(items, key=lambda item: str(item.get("name")))


def notes(pod: Obj) -> dict[str, str]:
    """Annotations with every time alike."""
    found = pod["metadata"].get("annotations") or {}
    return {key: STAMP.sub('"updateTimestamp":"T"', text) for key, text in found.items()}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"seed {row['seed']}")
def test_recorded_pod(row: dict[str, Any]) -> None:
    world = prepared(row)
    pod = {**row["pod"], "metadata": {**row["pod"]["metadata"], "namespace": SPACE}}
    made = world.handle(create(world, pod), START).body
    want = row["admitted"]
    for part in PARTS:
        left, right = (tidy(one["spec"].get(part) or []) for one in (want, made))
        if len(row["sidecarsets"]) > 1:  # OpenKruise takes SidecarSets in any order
            left, right = by_name(left), by_name(right)
        assert left == right
    assert notes(want) == notes(made)
