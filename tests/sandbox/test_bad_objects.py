"""An object that an actor of the cluster cannot deal with rests alone; the others make progress."""

from __future__ import annotations

import logging
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside, run_parts
from gitkruise.sandbox.initial_objects import bootstrap
from gitkruise.sandbox.server import SandboxOptions, parts_of
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import PODS, ApiRequest, ResourceRef
from gitkruise.world.controllers.object_backoff import FIRST, LONGEST, ObjectBackoff
from tests.clock import ManualClock
from tests.pods import raw_pod
from tests.worlds import SPACE, START, empty_world

pytestmark = pytest.mark.slow

MAPS, CLAIMS = ResourceRef("", "v1", "configmaps"), ResourceRef("", "v1", "persistentvolumeclaims")
SERVICES, SPACES = ResourceRef("", "v1", "services"), ResourceRef("", "v1", "namespaces")


def stored(kind: str, name: str, api: str = "v1", **rest: Any) -> Obj:
    """An object as an older program may have left it in the store."""
    meta = {
        "name": name, "namespace": SPACE, "uid": f"uid-{kind}-{name}", "resourceVersion": "1",
        "creationTimestamp": "2026-01-01T00:00:00Z", **rest.pop("metadata", {}),
    }  # fmt: skip
    if kind in {"Node", "Namespace"}:
        del meta["namespace"]
    return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}


def pod(name: str, **rest: Any) -> Obj:
    raw = raw_pod(name)
    return stored("Pod", name, **{"spec": raw["spec"], **rest})


BAD: dict[str, Obj] = {
    "a pod without a node whose status is a text": pod("bad", status="x"),
    "a pod on a node whose status is a text": pod(
        "bad", spec={**raw_pod("x")["spec"], "nodeName": "node-1"}, status="x"
    ),
    "a pod whose containers are a number": pod("bad", spec={"containers": 5, "nodeName": "node-1"}),
    "a node whose capacity is no quantity": stored(
        "Node", "bad", spec={}, status={"allocatable": {"cpu": "101%"}}
    ),
    "a node whose status is a text": stored("Node", "bad", spec={}, status="x"),
    "a claim whose spec is a text": stored("PersistentVolumeClaim", "bad", spec="x"),
    "a service whose selector is a text": stored(
        "Service", "bad", spec={"selector": "x", "ports": 5}
    ),
    "an event at no time": stored("Event", "bad", lastTimestamp="yesterday"),
    "a namespace that ends at no time": stored(
        "Namespace", "bad", metadata={"deletionTimestamp": "yesterday"}, spec={}
    ),
    "a map whose owner has no name": stored(
        "ConfigMap", "bad", metadata={"ownerReferences": [{"uid": "x"}]}
    ),
    "a map that ends with finalizers that are a number": stored(
        "ConfigMap",
        "bad",
        metadata={"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["orphan", 5]},
    ),
}


def good() -> list[ApiRequest]:
    """A pod with a Service and a claim, a map whose owner is gone, and a namespace that ends."""
    web = raw_pod("good", labels={"app": "good"})
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "gone"}
    bodies: list[tuple[ResourceRef, Obj]] = [
        (PODS, {"apiVersion": "v1", "kind": "Pod",
                "metadata": {"name": "good", "labels": {"app": "good"}},
                "spec": {"containers": web["spec"]["containers"]}}),
        (SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "good"},
                    "spec": {"selector": {"app": "good"}, "ports": [{"port": 80}]}}),
        (CLAIMS, {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": {"name": "good"},
                  "spec": {"accessModes": ["ReadWriteOnce"],
                           "resources": {"requests": {"storage": "1Gi"}}}}),
        (MAPS, {"apiVersion": "v1", "kind": "ConfigMap",
                "metadata": {"name": "orphan", "ownerReferences": [gone]}}),
    ]  # fmt: skip
    return [
        *(ApiRequest(verb="create", resource=r, namespace=SPACE, body=b) for r, b in bodies),
        ApiRequest(
            verb="create", resource=SPACES,
            body={"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}},
        ),
        ApiRequest(verb="delete", resource=SPACES, name="going"),
    ]  # fmt: skip


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_the_others_make_progress(bad: Obj, caplog: pytest.LogCaptureFixture) -> None:
    clock, world = ManualClock(START), empty_world()
    bootstrap(world, START, nodes=2)
    world.restore([*world.state.everything(), bad], world.version + 1)
    cluster = Cluster(world, clock.now)

    def get(kind: str, name: str, space: str = SPACE) -> Obj:
        return world.get(ObjectKey("", kind, space, name)) or {}

    async def play() -> None:
        async with alongside(run_parts(cluster, parts_of(SandboxOptions()), clock)):
            await clock.sleep(1)
            for request in good():
                await cluster.handle(request)
            await clock.sleep(20)
            assert get("Pod", "good")["status"]["phase"] == "Running"
            assert get("PersistentVolumeClaim", "good")["status"]["phase"] == "Bound"
            assert get("Endpoints", "good")["subsets"]
            assert not get("ConfigMap", "orphan")
            assert not get("Namespace", "going", "")
            await clock.sleep(600)

    with caplog.at_level(logging.ERROR):
        clock.run(play())
    whole = [r.message for r in caplog.records if "event=controller-backs-off" not in r.message]
    assert whole == []
    assert len(caplog.records) < 40, "it rests longer each time"


def test_rests_double_to_a_limit_and_end_with_a_success() -> None:
    failing, calls, now = True, [], START
    failures: list[Exception] = []
    backoff = ObjectBackoff(lambda _, error: failures.append(error))

    def call(at: Any) -> None:
        calls.append(at)
        if failing:
            raise ValueError("x")

    backoff.attempt("bad", now, call)
    rests = []
    for _ in range(8):
        due = backoff.next()
        assert due is not None
        rests.append(due - now)
        backoff.attempt("bad", due - timedelta(seconds=1), call)
        now = due
        backoff.retry(now)
    assert rests[:3] == [FIRST, 2 * FIRST, 4 * FIRST]
    assert rests[-1] == LONGEST
    assert len(calls) == len(failures) == 9
    failing = False
    backoff.retry(now + LONGEST)
    assert backoff.next() is None


def test_without_a_report_an_exception_goes_through() -> None:
    def call(_: Any) -> None:
        raise ValueError("x")

    with pytest.raises(ValueError, match="x"):
        ObjectBackoff().attempt("bad", START, call)
