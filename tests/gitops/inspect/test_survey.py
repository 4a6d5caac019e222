"""A survey that is followed: what holds it up, and what does not."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import pytest

from gitkruise.errors import ApiError, Forbidden, NotFound, Unavailable
from gitkruise.gitops.inspect.cluster_view import WORKLOADS, Survey
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DEPLOYMENT,
    REPLICASET,
    SIDECARSET,
)
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.health.health import RULES
from gitkruise.planner.health.stated_conditions import STATED
from gitkruise.planner.sync.annotations import UNIT
from gitkruise.wire.primitives.names import GroupKind
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, WatchEvent
from tests.worlds import START

BOTH = (CLONESET, ADVANCED_STATEFULSET)
FORBIDDEN = Forbidden("not yours")
# row: (kinds of the survey, error of the last one, whether it holds up the survey)
ROWS: dict[str, tuple[tuple[GroupKind, ...], ApiError, bool]] = {
    "away": ((CLONESET,), Unavailable("connection refused"), True),
    "forbidden": ((CLONESET,), FORBIDDEN, True),
    "not served": ((CLONESET,), NotFound("no such resource"), False),
    "one kind of several": (BOTH, FORBIDDEN, False),
    "that kind alone": ((ADVANCED_STATEFULSET,), FORBIDDEN, True),
    "that kind, away": (BOTH, Unavailable("connection refused"), True),
}


class Refusing:
    """A cluster that is empty, and answers requests for one resource with an error.

    `served` are the resources of its discovery pages.
    """

    def __init__(self, error: ApiError, resource: str, group: str) -> None:
        self.error, self.refused = error, (group, resource)
        self.served = [resource]

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.path.startswith(f"/apis/{self.refused[0]}/") and request.verb == "get":
            return ApiReply(200, {"resources": [{"name": name} for name in self.served]})
        if (request.resource.group, request.resource.plural) == self.refused:
            raise self.error
        return ApiReply(200, {"metadata": {"resourceVersion": "1"}, "items": []})

    async def watch(self, request: ApiRequest) -> AsyncGenerator[WatchEvent]:
        await asyncio.Event().wait()
        yield WatchEvent(type="BOOKMARK", object={})

    async def close(self) -> None:
        """Nothing is open."""


class Holding(Refusing):
    """A cluster with one object of each kind that it lists; `allowed` is a namespace where nothing
    is refused."""

    def __init__(self, kind: GroupKind, error: ApiError) -> None:
        stored = load_catalog().stored(kind)
        assert stored is not None
        super().__init__(error, stored.ref.plural, kind.group)
        self.allowed = ""

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.path == "/api/v1":
            return ApiReply(200, {"resources": [{"name": name} for name in self.served]})
        allowed = self.allowed and request.namespace == self.allowed
        wants = (request.resource.group, request.resource.plural)
        if not allowed and (wants == self.refused or request.verb == "get"):
            return await super().send(request)
        kinds = {"clonesets": "CloneSet", "deployments": "Deployment", "sidecarsets": "SidecarSet"}
        if request.resource.plural not in kinds:
            return ApiReply(200, {"metadata": {"resourceVersion": "1"}, "items": []})
        meta = {"name": "web", "namespace": "shop", "uid": "1", "resourceVersion": "1"}
        item = {
            "apiVersion": f"{request.resource.group}/{request.resource.version}",
            "kind": kinds[request.resource.plural], "metadata": meta,
            "spec": {"template": {"spec": {"containers": []}}}, "status": {},
        }  # fmt: skip
        return ApiReply(200, {"metadata": {"resourceVersion": "1"}, "items": [item]})


def refusing(kind: GroupKind, error: ApiError) -> Refusing:
    stored = load_catalog().stored(kind)
    assert stored is not None
    return Refusing(error, stored.ref.plural, kind.group)


@pytest.mark.parametrize("row", ROWS)
def test_what_holds_up_a_survey(row: str) -> None:
    kinds, error, held_up = ROWS[row]

    async def body() -> str:
        catalog = load_catalog()
        survey = Survey(refusing(kinds[-1], error), catalog, kinds, marked=True)
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(survey.follow(SystemClock()))
            for _ in range(20):
                await asyncio.sleep(0)
            following.cancel()
        return survey.problem

    assert bool(asyncio.run(body())) is held_up


def test_a_look_names_what_may_not_be_listed() -> None:
    transport = refusing(ADVANCED_STATEFULSET, FORBIDDEN)
    survey = Survey(transport, load_catalog(), BOTH)
    asyncio.run(survey.look())
    assert survey.unread == {"statefulsets.apps.kruise.io"}


@pytest.mark.parametrize("kind", BOTH)
def test_a_look_goes_on_without_what_the_server_does_not_serve(kind: GroupKind) -> None:
    """An API server checks the rights first: it refuses also what it has not got."""
    transport = refusing(kind, FORBIDDEN)
    transport.served = []
    survey = Survey(transport, load_catalog(), BOTH)

    async def body() -> None:
        await survey.look()
        async with asyncio.TaskGroup() as tasks:
            following = tasks.create_task(survey.follow(SystemClock()))
            for _ in range(20):
                await asyncio.sleep(0)
            assert survey.unread == set(), "a watch finds out no more than the look"
            following.cancel()

    asyncio.run(body())


def test_a_kind_that_is_asked_for_alone_is_never_taken_for_empty() -> None:
    transport = refusing(ADVANCED_STATEFULSET, FORBIDDEN)
    survey = Survey(transport, load_catalog(), (ADVANCED_STATEFULSET,))
    with pytest.raises(Forbidden, match="not yours"):
        asyncio.run(survey.look())


class Closed(Refusing):
    """A cluster whose account may list nothing."""

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.verb == "get":
            return await super().send(request)
        raise self.error


def test_kinds_that_the_server_lacks_do_not_count_where_nothing_may_be_listed() -> None:
    survey = Survey(Closed(FORBIDDEN, "clonesets", "apps.kruise.io"), load_catalog(), BOTH)
    with pytest.raises(Forbidden, match="not yours"):
        asyncio.run(survey.look())


@pytest.mark.parametrize(
    ("kind", "unread"),
    [
        (CLONESET, {"clonesets.apps.kruise.io"}),
        (DEPLOYMENT, {"deployments.apps"}),
        (REPLICASET, {"Deployment.apps (it needs replicasets.apps in all namespaces)"}),
    ],
)
def test_a_kind_that_may_not_be_read_does_not_hide_the_others(
    kind: GroupKind, unread: set[str]
) -> None:
    """Without its revisions the state of a workload would be a guess."""
    survey = Survey(Holding(kind, FORBIDDEN), load_catalog(), (CLONESET, DEPLOYMENT))
    asyncio.run(survey.look())
    left_out = CLONESET if kind == CLONESET else DEPLOYMENT
    assert {m.key.group_kind for m in survey.managed(START)} == {CLONESET, DEPLOYMENT} - {left_out}
    assert survey.unread == unread


def test_without_pods_no_rollout_is_shown() -> None:
    survey = Survey(Holding(POD, FORBIDDEN), load_catalog(), (CLONESET, DEPLOYMENT))
    with pytest.raises(Forbidden, match="not yours"):
        asyncio.run(survey.look())


def test_a_reader_of_one_namespace_sees_its_rollouts_without_sidecarsets() -> None:
    """Pods of a SidecarSet are in all namespaces, and those of a CloneSet are not."""
    transport = Holding(POD, FORBIDDEN)
    transport.allowed = "shop"
    survey = Survey(transport, load_catalog(), (CLONESET, SIDECARSET), namespace="shop")
    asyncio.run(survey.look())
    assert [m.key.group_kind for m in survey.managed(START)] == [CLONESET]
    assert survey.unread == {"SidecarSet.apps.kruise.io (it needs pods in all namespaces)"}


class Serving(Refusing):
    """A cluster with objects of one kind, served in one version."""

    def __init__(self, version: str, plural: str, items: list[dict[str, Any]]) -> None:
        super().__init__(NotFound("no such resource"), plural, version.partition("/")[0])
        self.version, self.plural, self.items = version.rpartition("/")[2], plural, items
        self.asked: list[str] = []

    async def send(self, request: ApiRequest) -> ApiReply:
        if request.resource.plural != self.plural or request.resource.version != self.version:
            return await super().send(request)
        self.asked.append(request.params.get("labelSelector", ""))
        return ApiReply(200, {"metadata": {"resourceVersion": "1"}, "items": self.items})


def test_workloads_have_the_kinds_that_are_judged_by_their_controllers() -> None:
    """Others that are judged are no workloads: what runs pods, or acts on them, has a row. A
    Rollout, of Argo or of OpenKruise, has none: its definition is not among ours."""
    others = {
        "Pod", "PersistentVolumeClaim", "Service", "Namespace", "CustomResourceDefinition",
        "NodeImage", "ResourceDistribution", "Rollout",
    }  # fmt: skip
    judged = RULES.keys() - STATED.keys()
    assert {kind for kind in judged if kind.kind not in others} == set(WORKLOADS)


def test_a_kind_that_needs_no_conversion_is_read_in_the_version_that_is_served() -> None:
    item = {
        "apiVersion": "apps.kruise.io/v1alpha1", "kind": "BroadcastJob", "spec": {}, "status": {},
        "metadata": {"name": "scan", "namespace": "shop", "uid": "1", "resourceVersion": "1"},
    }  # fmt: skip
    transport = Serving("apps.kruise.io/v1alpha1", "broadcastjobs", [item])
    survey = Survey(transport, load_catalog(), WORKLOADS)
    asyncio.run(survey.look())
    (found,) = survey.managed(START)
    assert (found.key.kind, found.state) == ("BroadcastJob", State.ROLLING)


def test_a_replica_set_of_git_has_a_row_and_those_of_deployments_are_read_once() -> None:
    items = [
        {
            "apiVersion": "apps/v1", "kind": "ReplicaSet", "spec": {}, "status": {},
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
                         "labels": labels},
        }
        for name, labels in (("own", {UNIT: "shop"}), ("of-a-deployment", {}))
    ]  # fmt: skip
    transport = Serving("apps/v1", "replicasets", items)
    survey = Survey(transport, load_catalog(), WORKLOADS, marked=True)
    asyncio.run(survey.look())
    assert [m.key.name for m in survey.managed(START)] == ["own"]
    assert transport.asked == [""]
