"""Pods of one spec: the second is made like the first, and exactly as if it had been the first."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.errors import ApiError
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest
from gitkruise.world.api.cluster import World
from gitkruise.world.store.admission_cache import AdmissionCache
from tests.world.write.test_sidecar_injection import sidecarset
from tests.worlds import SPACE, START, container, create, empty_world, pod

REF: Final = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web",
              "uid": "0b55", "controller": True}  # fmt: skip
LATER: Final = START + timedelta(seconds=5)
TWO: Final = (container(ports=[{"containerPort": 80}] * 2), container("log"))
URGENT: Final[Obj] = {
    "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "urgent"},
    "value": 7, "globalDefault": True,
}  # fmt: skip


def sent(called: str, **meta: Any) -> dict[str, Any]:
    made = pod(called, *TWO)
    born = {"namespace": SPACE, "labels": {"app": "web"}, "ownerReferences": [REF], **meta}
    return {**made, "metadata": {**made["metadata"], **born}}


def sets_up(world: World) -> None:
    world.handle(create(world, sidecarset()), START)


def ranks(world: World) -> None:
    world.handle(create(world, URGENT), START)


def nothing(world: World) -> None:
    del world


# what the second pod says of itself, what happens between the two
ROWS: Final[Mapping[str, tuple[dict[str, Any], Callable[[World], None]]]] = {
    "a twin": ({}, nothing),
    "another label's value": ({"labels": {"app": "api"}}, nothing),
    "one label more": ({"labels": {"app": "web", "tier": "front"}}, nothing),
    "annotations": ({"annotations": {"a": "b"}}, nothing),
    "no owner": ({"ownerReferences": []}, nothing),
    "another owner": ({"ownerReferences": [{**REF, "uid": "1c66"}]}, nothing),
    "a name to be made": ({"name": "", "generateName": "web-"}, nothing),
    "an unknown field": ({"labelz": {}}, nothing),
    "empty parts": ({"labels": {}, "annotations": None, "finalizers": []}, nothing),
    "a bad label": ({"labels": {"app": "a b"}}, nothing),
    "a label of the wrong type": ({"labels": {"app": 1}}, nothing),
    "managers of its own": ({"managedFields": [{}]}, nothing),
    "an order of launch": (
        {"annotations": {"apps.kruise.io/container-launch-priority": "Ordered"}}, nothing,
    ),
    "a sidecar since": ({}, sets_up),
    "a priority class since": ({}, ranks),
}  # fmt: skip


def answer(world: World, request: ApiRequest) -> Any:
    """Return the reply or the error of a request."""
    try:
        reply = world.handle(request, LATER)
    except ApiError as error:
        return error.as_status(), error.warnings
    return reply.body, reply.warnings


@pytest.mark.parametrize("manager", ["kruise", "kubectl"])
@pytest.mark.parametrize("row", ROWS)
def test_a_sibling_is_made_as_if_it_had_been_the_first(row: str, manager: str) -> None:
    meta, between = ROWS[row]
    one, other = empty_world(), empty_world()
    second = replace(create(one, sent("b", **meta)), params={"fieldManager": manager})
    for world in (one, other):
        world.handle(replace(create(one, sent("a")), params={"fieldManager": "kruise"}), START)
        between(world)
    other.state.admission_cache = AdmissionCache()
    assert answer(one, second) == answer(other, second)


def test_siblings_share_what_is_the_same() -> None:
    world = empty_world()
    first, second = (world.handle(create(world, sent(name)), START).body for name in "ab")
    assert first["spec"] is second["spec"]
    fields = [p["metadata"]["managedFields"][0]["fieldsV1"] for p in (first, second)]
    assert fields[0] is fields[1]
