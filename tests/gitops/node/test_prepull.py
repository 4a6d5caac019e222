"""Pull jobs that cannot be drafted, and what the message recommends."""

from __future__ import annotations

import asyncio

import pytest

from gitkruise.errors import ClusterFailed
from gitkruise.gitops.node.prepull import prepare_jobs
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.node.prepull_draft import PrepullOptions
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from tests.worlds import SPACE, Lab, cloneset


def test_nodes_that_are_too_young_have_no_node_image() -> None:
    """A node gets its NodeImage 30 s after it became Ready; --all-nodes would not help."""
    lab = Lab(gates=Gates(image_pull_job_gate=True))
    lab.apply(cloneset(replicas=2))
    lab.run(20)
    raw = thaw(lab.get(cloneset()))
    transport, clock = WorldTransport(Cluster(lab.world, lambda: lab.now)), SystemClock()
    with pytest.raises(ClusterFailed) as caught:
        asyncio.run(prepare_jobs(transport, clock, raw, SPACE, PrepullOptions()))
    (found,) = caught.value.findings
    assert found.code == "GK4606"
    assert "no node to pull on: no NodeImage exists for" in found.message
    assert ("next", "again later: a node gets one 30 s after it became Ready") in found.notes
