"""Pods that were created while no webhook answered get their sidecars, if nothing of them ran."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from gitkruise.admission.chain import admit
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.controller.repair import Repairer
from gitkruise.kube.client.events import Recorder
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.api.cluster import World
from tests.clock import ManualClock
from tests.webhook.hooked import sidecarset
from tests.worlds import PODS, SPACE, START, create, pod

LATER = START + timedelta(minutes=5)
OWNER = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": True}  # fmt: skip  # noqa: E501


class Scene:
    """A World whose pod webhook can be dead, and a Repairer some minutes later."""

    def __init__(self) -> None:
        self.alive = True
        self.world = World(load_catalog(), admit=self._admit)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
        self.world.handle(create(self.world, space), START)
        self.world.handle(create(self.world, sidecarset()), START)
        clock = ManualClock(LATER)
        transport = WorldTransport(Cluster(self.world, lambda: LATER))
        self.repairer = Repairer(self.world, transport, clock, Recorder(transport, clock))

    def _admit(self, request: AdmissionRequest) -> Obj | None:
        return admit(request, Gates(pod_webhook=self.alive))

    def missed(self, name: str = "p", **meta: Any) -> None:
        """A pod that is created while the webhook is dead."""
        self.alive = False
        plain = {"name": name, "namespace": SPACE, "labels": {"app": "web"}}
        obj = {**pod(name), "metadata": {**plain, "ownerReferences": [OWNER], **meta}}
        self.world.handle(create(self.world, obj), START + timedelta(minutes=1))
        self.alive = True

    def repaired(self) -> list[str]:
        return asyncio.run(self.repairer.round())


def test_a_missed_pod_is_made_again_and_reported() -> None:
    scene = Scene()
    scene.missed()
    assert scene.repaired() == ["p"]
    assert scene.world.objects(PODS, SPACE) == []
    assert scene.repaired() == []


def test_while_the_webhook_is_dead_nothing_is_touched() -> None:
    scene = Scene()
    scene.missed()
    scene.alive = False
    assert scene.repaired() == []
    assert len(scene.world.objects(PODS, SPACE)) == 1


LEFT: dict[str, Callable[[Scene], None]] = {
    "other labels": lambda s: s.missed(labels={"app": "else"}),
    "without an owner": lambda s: s.missed(ownerReferences=[]),
    "a job counts its pods": lambda s: s.missed(ownerReferences=[{**OWNER, "kind": "Job"}]),
    "injected already": lambda s: s.missed(
        annotations={"kruise.io/sidecarset-injected-list": "mesh"}
    ),
}


@pytest.mark.parametrize("make", LEFT.values(), ids=LEFT)
def test_what_is_left_alone(make: Callable[[Scene], None]) -> None:
    scene = Scene()
    make(scene)
    assert scene.repaired() == []
    assert len(scene.world.objects(PODS, SPACE)) == 1


def test_a_pod_that_has_run_is_left_alone() -> None:
    scene = Scene()
    scene.missed()
    (stored,) = scene.world.objects(PODS, SPACE)
    status = {"phase": "Pending", "containerStatuses": [
        {"name": "app", "containerID": "containerd://1", "ready": False}]}  # fmt: skip
    body = {**stored, "status": status}
    request = create(scene.world, stored)
    scene.world.handle(
        replace(request, verb="update", name="p", subresource="status", body=body), LATER
    )
    assert scene.repaired() == []


def test_a_pod_older_than_the_sidecarset_is_left_alone() -> None:
    scene = Scene()
    scene.missed()
    again = scene.world.fork()
    (stored,) = again.objects(PODS, SPACE)
    older = {**stored["metadata"], "creationTimestamp": "2026-11-21T09:00:00Z"}
    objects = [o for o in (*scene.world.state.everything(),) if o["kind"] != "Pod"]
    scene.world.restore([*objects, {**stored, "metadata": older}], again.version)
    assert scene.repaired() == []
