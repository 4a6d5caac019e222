"""A forecast asks the model cluster for as much as a change needs, not for each pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from bench.timing import calls_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.simulation.forecast import Forecast, predict
from tests.worlds import SPACE, Lab, cloneset, container, deployment, sidecarset, template

NEW_IMAGE: Final = {"spec": {"template": template("app:v2")}}


def _set(policy: str, **strategy: Any) -> Callable[[int], list[Obj]]:
    return lambda count: [cloneset(replicas=count, podUpdatePolicy=policy, **strategy)]


def _with_sidecars(count: int) -> list[Obj]:
    log = container("log", "log:v1")
    mesh = sidecarset(
        "mesh", log, updateStrategy={"type": "RollingUpdate", "maxUnavailable": "20%"}
    )
    return [mesh, cloneset(replicas=count)]


# The first object of a row is the one that changes.
ROLLOUTS: Final[Mapping[str, tuple[Callable[[int], list[Obj]], Any]]] = {
    "in place": (_set("InPlaceIfPossible", maxUnavailable="20%"), NEW_IMAGE),
    "recreated": (_set("ReCreate", maxUnavailable="20%"), NEW_IMAGE),
    "with a surge": (_set("ReCreate", maxUnavailable=0, maxSurge="20%"), NEW_IMAGE),
    "scaled in": (_set("ReCreate"), {"spec": {"replicas": 1}}),
    "a Deployment": (lambda count: [deployment(replicas=count)], NEW_IMAGE),
    "a sidecar": (_with_sidecars, {"spec": {"containers": [container("log", "log:v2")]}}),
}


@pytest.mark.parametrize("row", ROLLOUTS)
def test_more_pods_need_no_more_requests(row: str) -> None:
    objects, body = ROLLOUTS[row]
    few, many = (_requests_of(objects(count), body) for count in (20, 40))
    assert few > 0
    assert many <= few


def _requests_of(objects: list[Obj], body: Any) -> int:
    """Requests to the copy of the cluster while the change of the first object is played."""
    lab = Lab()
    for obj in objects:
        lab.apply(obj)
    lab.run()
    changed = objects[0]
    group, _, version = changed["apiVersion"].rpartition("/")
    write = ApiRequest(
        verb="patch",
        resource=ResourceRef(group, version, f"{changed['kind'].lower()}s"),
        namespace="" if changed["kind"] == "SidecarSet" else SPACE,
        name=changed["metadata"]["name"],
        body=body,
        content_type=MERGE_PATCH,
    )
    played: list[Forecast] = []
    asked = calls_of(
        lambda: played.append(predict(lab.world, [write], lab.now)), of=World.handle.__code__
    )
    assert played[0].trace.quiet
    return asked
