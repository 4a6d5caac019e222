"""The kinds of a cluster, from its CustomResourceDefinitions."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final

import pytest

from gitkruise.errors import (
    ApiError,
    Forbidden,
    InternalError,
    NotFound,
    Unavailable,
    WatchExpired,
)
from gitkruise.kube.client.discovery import listed, served_by, served_catalog
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef
from tests.worlds import START, create, empty_world


def definition(plural: str, pattern: str, established: str = "") -> dict[str, Any]:
    """A definition with one string field; `established`: its condition, "" for none."""
    field = {"type": "string", "pattern": pattern}
    schema = {"type": "object", "properties": {"size": field}}
    names = {"plural": plural, "kind": plural.title()}
    version = {
        "name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema},
    }  # fmt: skip
    conditions = [{"type": "Established", "status": established}] if established else []
    return {
        "metadata": {"name": f"{plural}.example.com"},
        "spec": {
            "group": "example.com", "names": names, "scope": "Namespaced", "versions": [version],
        },
        "status": {"conditions": conditions},
    }  # fmt: skip


@pytest.mark.parametrize("established", ["", "False"])
def test_a_definition_that_nobody_serves_is_compiled_and_a_bad_one_left_out(
    established: str, caplog: pytest.LogCaptureFixture
) -> None:
    bad, good = definition("bad", "(?=x)", established), definition("good", "x", established)
    with caplog.at_level(logging.WARNING):
        catalog = served_by(load_catalog(), [bad, good])
    assert catalog.by_kind("example.com", "v1", "Bad") is None
    assert catalog.by_kind("example.com", "v1", "Good") is not None
    assert ["bad.example.com" in record.getMessage() for record in caplog.records] == [True]


def test_a_definition_that_is_served_is_compiled_when_it_is_used() -> None:
    """An API server compiled its schema; `plan` on a cluster with hundreds of them must not."""
    catalog = served_by(load_catalog(), [definition("late", "(?=x)", "True")])
    assert catalog.by_kind("example.com", "v1", "Late") is not None


VERBS: Final = ["create", "delete", "get", "list", "patch", "update", "watch"]
GROUP: Final = {
    "name": "example.org",
    "versions": [{"version": "v2"}, {"version": "v1"}],
    "preferredVersion": {"version": "v1"},
}


class Aggregating(WorldTransport):
    """A cluster with an API server of somebody behind an APIService, which may answer an error."""

    away: ApiError | None = None

    async def send(self, request: ApiRequest) -> ApiReply:
        page = request.path
        if page == "/apis":
            return ApiReply(200, {"groups": [GROUP, {**GROUP, "name": "apps"}]})
        if page.startswith("/apis/example.org/") and self.away is not None:
            raise self.away
        if page.startswith("/apis/example.org/"):
            return ApiReply(200, {"resources": self.resources(page.rpartition("/")[2])})
        return await super().send(request)

    def resources(self, version: str) -> Sequence[Obj]:
        gate = {"name": "gates", "kind": "Gate", "namespaced": False, "verbs": VERBS}
        read = {"name": "readings", "kind": "Reading", "namespaced": True, "verbs": ["get", "list"]}
        return [gate, {**gate, "name": "gates/status"}, read] if version == "v1" else [gate]


@pytest.mark.parametrize("error", [Unavailable, InternalError, Forbidden, NotFound])
def test_kinds_of_other_api_servers_are_known_without_a_schema(error: type[ApiError]) -> None:
    """Those that users cannot write are left out, such as measurements of pods."""

    async def play() -> None:
        transport = Aggregating(Cluster(empty_world(), lambda: START))
        catalog = await served_catalog(transport, load_catalog())
        gate = catalog.by_kind("example.org", "v2", "Gate")
        assert gate is not None
        assert (gate.plural, gate.namespaced, gate.storage_version) == ("gates", False, "v1")
        assert catalog.preferred("example.org", "Reading") is None
        transport.away = error("no answer")
        again = await served_catalog(transport, load_catalog(), catalog.definitions or ())
        assert again.definitions == catalog.definitions
        start = await served_catalog(transport, load_catalog())
        assert start.preferred("example.org", "Gate") is None
        assert start.preferred("apps", "Deployment") is not None

    asyncio.run(play())


class Expiring(WorldTransport):
    """A cluster whose continue tokens do not last; pages of one object."""

    async def send(self, request: ApiRequest) -> ApiReply:
        if "continue" in request.params:
            raise WatchExpired("The provided continue parameter is too old")
        paged = "limit" in request.params
        params = {**request.params, "limit": "1"} if paged else request.params
        return await super().send(replace(request, params=params))


def test_a_list_whose_token_expires_is_read_whole() -> None:
    world = empty_world()
    for name in ("a", "b"):
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}
        world.handle(create(world, put(obj, ("metadata", "namespace"), "shop")), START)
    transport = Expiring(Cluster(world, lambda: START))
    found = asyncio.run(listed(transport, ResourceRef("", "v1", "configmaps"), namespace="shop"))
    assert [obj["metadata"]["name"] for obj in found] == ["a", "b"]
