"""Who drives the pods: the wishes of units against the Lease of OpenKruise's manager."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

import pytest

from gitkruise.driving import drive
from gitkruise.errors import ApiError, ClusterFailed, Forbidden
from gitkruise.gitops.cluster.engine import OWN, Engine, choose_engine
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.kube.cache.leader_election import Lease
from gitkruise.kube.system.lease_terms import LeaseName
from gitkruise.model.gitops.shards import Shard
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.controllers import alongside
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from tests.clock import ManualClock
from tests.gitops.cluster.leases import LASTS, lease, renewal
from tests.gitops.stage import Wire
from tests.worlds import START, create, empty_world

ALIVE: Final = lease("manager-1", 2)
LATE: Final = lease("manager-1", 2 * LASTS - 1)  # a slow renewal is no death
DEAD: Final = lease("manager-1", 2 * LASTS + 1)
RESIGNED: Final = lease("", 2)
NEVER_RENEWED: Final = lease("manager-1", None)


def wire_to(found: dict[str, Any] | None) -> Wire:
    world = empty_world()
    if found is not None:
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kruise-system"}}
        world.handle(create(world, space), START)
        world.handle(create(world, found), START)
    return Wire(Cluster(world, lambda: START))


def chosen(engines: set[str], found: dict[str, Any] | None) -> str:
    clock = ManualClock(START)
    return clock.run(choose_engine(wire_to(found), engines, clock)).name


@pytest.mark.parametrize(
    ("engines", "found", "engine"),
    [
        pytest.param({"auto"}, None, "own", id="auto-no-openkruise"),
        pytest.param({"auto"}, ALIVE, "kruise", id="auto-alive"),
        pytest.param({"auto"}, LATE, "kruise", id="auto-late"),
        pytest.param({"auto"}, DEAD, "own", id="auto-dead"),
        pytest.param({"auto"}, RESIGNED, "own", id="auto-resigned"),
        pytest.param({"auto"}, NEVER_RENEWED, "own", id="auto-never-renewed"),
        pytest.param({"own"}, None, "own", id="own-no-openkruise"),
        pytest.param({"own"}, DEAD, "own", id="own-dead"),
        pytest.param({"own", "auto"}, None, "own", id="own-decides-for-auto"),
        pytest.param({"kruise"}, ALIVE, "kruise", id="kruise-alive"),
        pytest.param({"kruise"}, None, "kruise", id="kruise-not-there-yet"),
        pytest.param({"kruise", "auto"}, DEAD, "kruise", id="kruise-decides-for-auto"),
    ],
)
def test_one_engine_is_chosen(engines: set[str], found: dict[str, Any] | None, engine: str) -> None:
    assert chosen(engines, found) == engine


@pytest.mark.parametrize(
    ("engines", "found", "code"),
    [
        pytest.param({"own"}, ALIVE, "GK4402", id="own-alive"),
        pytest.param({"own", "auto"}, ALIVE, "GK4402", id="own-and-auto-alive"),
        pytest.param({"own", "kruise"}, None, "GK4401", id="both"),
    ],
)
def test_two_engines_on_one_object_are_refused(
    engines: set[str], found: dict[str, Any] | None, code: str
) -> None:
    with pytest.raises(ClusterFailed) as caught:
        chosen(engines, found)
    assert [f.code for f in caught.value.findings] == [code]
    assert any(label == "next" for label, _ in caught.value.findings[0].notes)


def test_openkruise_with_a_clock_behind_ours_is_alive() -> None:
    """Two engines would undo each other's work on one CloneSet."""
    clock, wire = ManualClock(START), wire_to(DEAD)
    later = renewal(lease("manager-1", 2 * LASTS - 2)["spec"])

    async def renewed() -> None:
        await clock.sleep(2)
        await wire.send(later)

    async def script() -> str:
        async with alongside(renewed()):
            return (await choose_engine(wire, {"auto"}, clock)).name

    assert clock.run(script()) == "kruise"


def test_a_lease_that_may_not_be_read_is_no_permission_to_drive() -> None:
    wire = wire_to(None)

    def refuse(request: ApiRequest) -> ApiError | None:
        return Forbidden("leases is forbidden") if request.resource.plural == "leases" else None

    wire.refuse = refuse
    with pytest.raises(Forbidden):
        asyncio.run(choose_engine(wire, {"auto"}, ManualClock(START)))


def test_a_cluster_without_clone_sets_is_asked_less_and_less_often(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Each start lists every pod of the cluster."""
    clock, world = ManualClock(START), empty_world()
    wire = Wire(Cluster(world, clock.now))
    name = LeaseName(namespace="kube-system", name="workloads", identity="us")

    async def script() -> None:
        live = LiveView(wire, clock)
        live.catalog = live.catalog.without_crd("clonesets.apps.kruise.io")
        driving = drive(
            Gates(), Lease(name, wire, clock), live, wire, clock,
            shard=Shard(), engine=Engine(OWN),
        )  # fmt: skip
        async with alongside(live.run()), alongside(driving):
            await clock.sleep(600)

    clock.run(script())
    assert sum(r.verb == "list" and r.resource == PODS for r in wire.requests) < 40
    records = [r for r in caplog.records if "controllers-stopped" in r.message]
    assert [r.levelname for r in records if r.levelno >= logging.WARNING] == ["WARNING"]
