"""Plans on a cluster whose OpenKruise is older than the kinds that a rollout may depend on."""

from __future__ import annotations

import asyncio

import pytest

from gitkruise.errors import NotFound
from gitkruise.gitops.preview.simulate import rollout_objects
from gitkruise.kube.client.discovery import served_by
from gitkruise.kube.system.package_data import installable_crds
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from tests.gitops.preview.test_preview import CATALOG
from tests.worlds import SPACE, START, Lab, cloneset


class Older(WorldTransport):
    """A cluster that serves every kind but one."""

    missing = ""

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.resource.plural == self.missing:
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
