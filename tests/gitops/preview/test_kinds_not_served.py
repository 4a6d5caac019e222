"""Plans on a cluster whose OpenKruise is older than the kinds that a rollout may depend on."""

from __future__ import annotations

import asyncio

import pytest

from gitkruise.errors import NotFound
from gitkruise.gitops.inspect.cluster_view import Survey
from gitkruise.gitops.preview.simulate import rollout_objects
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.gitops.preview.test_preview import CATALOG
from tests.worlds import SPACE, START, Lab, cloneset, installable_crds


class Older(WorldTransport):
    """A cluster that serves every kind but one, or that one without a version."""

    missing, version = "", ""

    async def send(self, request: ApiRequest) -> ApiReply:
        asked = request.resource
        if asked.plural == self.missing and self.version in {"", asked.version}:
            raise NotFound("the server answered 404: 404 page not found")
        return await super().send(request)


@pytest.mark.parametrize("missing", ["workloadspreads", "podunavailablebudgets", "sidecarsets"])
def test_a_plan_reads_the_kinds_that_the_cluster_serves(missing: str) -> None:
    lab = Lab()
    lab.apply(cloneset())
    lab.run(60)
    transport = Older(Cluster(lab.world, lambda: START))
    transport.missing = missing
    there = [c for c in installable_crds() if c["spec"]["names"]["plural"] != missing]
    assert len(there) == len(installable_crds()) - 1
    served = served_by(CATALOG, there)
    reading = rollout_objects(transport, CATALOG, [SPACE], kinds=(), served=served)
    found = asyncio.run(reading)
    assert any(obj["kind"] == CLONESET.kind for obj in found)


def test_clonesets_are_read_in_the_one_version_that_an_older_openkruise_serves() -> None:
    lab = Lab()
    lab.apply(cloneset(partition="60%"))
    lab.run(60)
    transport = Older(Cluster(lab.world, lambda: START))
    transport.missing, transport.version = "clonesets", "v1beta1"
    served = served_by(CATALOG, [_in_alpha(crd) for crd in installable_crds()])
    reading = rollout_objects(transport, CATALOG, [SPACE], kinds=(), served=served)
    (found,) = (obj for obj in asyncio.run(reading) if obj["kind"] == CLONESET.kind)
    assert found["apiVersion"] == "apps.kruise.io/v1beta1"
    assert found["spec"]["updateStrategy"]["rollingUpdate"]["partition"] == "60%"
    survey = Survey(transport, CATALOG, (CLONESET,), namespace=SPACE)

    async def seen() -> list[str]:
        await survey.look()
        partitions = [_partition(survey)]
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(survey.follow(SystemClock()))
            further = {"spec": {"updateStrategy": {"rollingUpdate": {"partition": "20%"}}}}
            lab.patch(cloneset(), further)
            while (now := _partition(survey)) == partitions[0]:
                await survey.changed.wait()
                survey.changed.clear()
            following.cancel()
        return [*partitions, now]

    assert asyncio.run(asyncio.wait_for(seen(), 30)) == ["60%", "20%"]


def _in_alpha(crd: Obj) -> Obj:
    """Return a definition of CloneSets that serves v1alpha1 alone; any other as it is."""
    if crd["spec"]["names"]["kind"] != CLONESET.kind:
        return crd
    (only,) = (v for v in crd["spec"]["versions"] if v["name"] == "v1alpha1")
    versions = [{**only, "served": True, "storage": True}]
    return {**crd, "spec": {**crd["spec"], "versions": versions}}


def _partition(survey: Survey) -> str:
    (seen,) = survey.managed(START)
    assert seen.rollout is not None
    return str(seen.rollout.partition)
