"""Calls of webhooks in the embedded cluster: who goes on meanwhile, and what is no answer."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest
from aiohttp import web

from gitkruise.admission.chain import admit
from gitkruise.errors import ApiError, BadRequest, Forbidden, InternalError
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend import webhook_client
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import put
from gitkruise.wire.primitives.requests import MERGE_PATCH, STRATEGIC_PATCH, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from tests.hooks.listener import answered, bundle_of, hearing
from tests.worlds import START

MAPS = ResourceRef("", "v1", "configmaps")
HOOKS = ResourceRef("admissionregistration.k8s.io", "v1", "mutatingwebhookconfigurations")
SPACES = GroupKind("", "Namespace")
ADDED = [{"op": "add", "path": "/metadata/annotations", "value": {"by": "webhook"}}]
Asked = Callable[[Cluster, Obj], Awaitable[web.Response]]


def write(verb: str, name: str, **data: str) -> ApiRequest:
    meta = {"name": name, "labels": {"reviewed": "yes"}}
    return ApiRequest(
        verb=verb,
        resource=MAPS,
        namespace="default",
        name="" if verb == "create" else name,
        body={"metadata": meta, "data": data},
        content_type=MERGE_PATCH if verb == "patch" else "application/json",
    )


async def allowed(request: Obj, **response: Any) -> web.Response:
    return await answered({"response": response}, request["uid"])


@asynccontextmanager
async def reviewing(asked: Asked) -> AsyncIterator[Cluster]:
    """A cluster whose labelled config maps are reviewed by `asked`."""
    world = World(load_catalog(), admit=lambda request: admit(request, Gates()))
    cluster = Cluster(world, lambda: START)

    async def answer(http: web.BaseRequest) -> web.StreamResponse:
        return await asked(cluster, json.loads(await http.read())["request"])

    async with hearing(answer) as (port, ca):
        hook = {
            "name": "hook.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "timeoutSeconds": 1,
            "clientConfig": {"url": f"https://127.0.0.1:{port}/", "caBundle": bundle_of(ca)},
            "objectSelector": {"matchLabels": {"reviewed": "yes"}},
            "rules": [
                {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["*"]}
            ],
        }
        body = {"metadata": {"name": "hook"}, "webhooks": [hook]}
        await cluster.handle(ApiRequest(verb="create", resource=HOOKS, body=body))
        try:
            yield cluster
        finally:
            await cluster.webhooks.close()


def test_others_go_on_and_a_change_is_asked_about_again() -> None:
    seen: list[Any] = []

    async def asked(cluster: Cluster, request: Obj) -> web.Response:
        seen.append(request["oldObject"] and request["oldObject"]["data"])
        if len(seen) == 2:  # somebody without a label to be reviewed by writes meanwhile
            world = cluster.world
            world.handle(write("patch", "a", meanwhile="yes"), START)
        return await allowed(request, patch=ADDED)

    async def play() -> Obj:
        async with reviewing(asked) as cluster:
            await cluster.handle(write("create", "a", k="v"))
            return (await cluster.handle(write("patch", "a", k="w"))).body

    made = asyncio.run(play())
    assert seen == [None, {"k": "v"}, {"k": "v", "meanwhile": "yes"}]
    assert made["data"] == {"k": "w", "meanwhile": "yes"}
    assert made["metadata"]["annotations"] == {"by": "webhook"}


def test_creates_side_by_side_get_uids_and_names_of_their_own() -> None:
    async def asked(_: Cluster, request: Obj) -> web.Response:
        return await allowed(request, patch=ADDED)

    async def play() -> list[Obj]:
        made = write("create", "", k="v")
        made.body["metadata"] = {"generateName": "gen-", "labels": {"reviewed": "yes"}}
        async with reviewing(asked) as cluster, asyncio.TaskGroup() as group:
            tasks = [group.create_task(cluster.handle(made)) for _ in range(8)]
            return [(await task).body["metadata"] for task in tasks]
        raise AssertionError

    metas = asyncio.run(play())
    assert len({meta["uid"] for meta in metas}) == len({meta["name"] for meta in metas}) == 8


def test_what_the_model_cluster_does_by_itself_is_not_reviewed() -> None:
    async def asked(_: Cluster, request: Obj) -> web.Response:
        return await answered({"response": {"allowed": False}}, request["uid"])

    async def play() -> None:
        async with reviewing(asked) as cluster:
            assert cluster.world.handle(write("create", "own"), START).status == 201
            with pytest.raises(ApiError, match="denied the request"):
                await cluster.handle(write("create", "another"))

    asyncio.run(play())


def test_a_webhook_with_side_effects_refuses_dry_runs() -> None:
    """One that was registered before v1: nobody can do so any more."""

    async def asked(_: Cluster, request: Obj) -> web.Response:
        return await allowed(request)

    async def play() -> None:
        async with reviewing(asked) as cluster:
            key = ObjectKey(HOOKS.group, "MutatingWebhookConfiguration", "", "hook")
            stored = cluster.world.get(key)
            assert stored is not None
            old = put(stored, ("webhooks", 0, "sideEffects"), "Some")
            cluster.world.restore([*cluster.world.objects(SPACES), old], cluster.world.version)
            dry = replace(write("create", "a"), params={"dryRun": "All"})
            why = 'admission webhook "hook.example.com" does not support dry run'
            with pytest.raises(BadRequest, match=why):
                await cluster.handle(dry)
            assert (await cluster.handle(write("create", "a"))).status == 201

    asyncio.run(play())


async def _moved(_: Obj) -> web.Response:
    return web.Response(status=307, headers={"Location": "https://127.0.0.1:1/"})


async def _endless(_: Obj) -> web.Response:
    return web.Response(text=" " * 5000)


async def _silent(_: Obj) -> web.Response:
    await asyncio.sleep(5)
    return web.Response()


async def _other_types(request: Obj) -> web.Response:
    return await answered({"response": {"allowed": "yes"}}, request["uid"])


async def _no_status(request: Obj) -> web.Response:
    status = {"details": {"causes": "many"}}
    return await answered({"response": {"allowed": False, "status": status}}, request["uid"])


async def _another_kind(request: Obj) -> web.Response:
    del request
    return web.json_response({"apiVersion": "v1", "kind": "Pod"})


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (_moved, "the webhook answers with a redirect .307., which is not followed"),
        (_endless, "its answer is larger than 4096 bytes"),
        pytest.param(
            _silent, "Post .*timeout=1s.: context deadline exceeded", marks=pytest.mark.slow
        ),
        (_other_types, "response.allowed is of another type"),
        (_no_status, "response.status is no Status"),
        (_another_kind, 'no kind "Pod" of version "v1" is expected'),
    ],
)
def test_no_answer(
    answer: Callable[[Obj], Awaitable[web.Response]], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webhook_client, "ANSWER_MAX", 4096)

    async def asked(_: Cluster, request: Obj) -> web.Response:
        return await answer(request)

    async def play() -> None:
        async with reviewing(asked) as cluster:
            await cluster.handle(write("create", "a"))

    with pytest.raises(InternalError, match=f'failed calling webhook "hook.example.com": .*{why}'):
        asyncio.run(play())


@pytest.mark.slow
@pytest.mark.parametrize("policy", ["Fail", "Ignore"])
def test_a_costly_condition_is_as_one_without_an_answer(policy: str) -> None:
    """As in a kube-apiserver: it is cancelled, and failurePolicy says what that means."""

    async def asked(cluster: Cluster, request: Obj) -> web.Response:
        raise AssertionError("it was to be asked about nothing")

    async def play() -> None:
        async with reviewing(asked) as cluster:
            costly = "object.data.all(a, object.data.all(b, object.data.all(c, a + b + c != '')))"
            change = {"webhooks": [{
                "name": "hook.example.com", "failurePolicy": policy,
                "matchConditions": [{"name": f"c{n}", "expression": costly} for n in range(20)],
            }]}  # fmt: skip
            await cluster.handle(
                ApiRequest(verb="patch", resource=HOOKS, name="hook", body=change,
                           content_type=STRATEGIC_PATCH)
            )  # fmt: skip
            await cluster.handle(write("create", "big", **{f"k{n}": "" for n in range(1_000)}))

    began = time.thread_time()
    if policy == "Ignore":
        asyncio.run(play())
    else:
        with pytest.raises(Forbidden, match="operation cancelled: actual cost limit exceeded"):
            asyncio.run(play())
    assert time.thread_time() - began < 8
