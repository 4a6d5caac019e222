"""Applies bound to a version, on a real kube-apiserver."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from gitkruise.errors import ApiError, Conflict
from gitkruise.gitops.reconcile.version_binding import bound, collided, renewed
from gitkruise.kube.client.transport import Transport
from gitkruise.planner.sync.annotations import COMMIT, DIGEST, MANAGER, PATH, UNIT, UNIT_REF
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver, talking

pytestmark = [pytest.mark.kube, pytest.mark.slow]
MAPS: Final = ResourceRef("", "v1", "configmaps")
NAME: Final = "bound"


def request(verb: str, **more: Any) -> ApiRequest:
    return ApiRequest(verb=verb, resource=MAPS, namespace="default", name=NAME, **more)


def apply(commit: str) -> ApiRequest:
    notes = {UNIT_REF: "default/web", COMMIT: commit, PATH: "a.yaml:1", DIGEST: commit}
    meta = {"name": NAME, "labels": {UNIT: "0123456789ab"}, "annotations": notes}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": {"of": commit}}
    params = {"fieldManager": MANAGER, "force": "false"}
    return request("patch", body=body, content_type=APPLY_PATCH, params=params)


async def refused(transport: Transport, asked: ApiRequest) -> bool:
    """Send what the server must refuse; return whether gitkruise takes it as a collision."""
    with pytest.raises(ApiError) as raised:
        await transport.send(asked)
    return collided(asked, raised.value)


def test_an_apply_is_refused_once_the_object_was_written_or_deleted(server: Apiserver) -> None:
    async def play() -> None:
        async with talking(server) as transport:
            old: Obj = (await transport.send(apply("1"))).body
            ours = apply("2")
            assert (await transport.send(bound(ours, old))).body["data"] == {"of": "2"}
            assert await refused(transport, bound(ours, old))
            again = await renewed(transport, ours, old)
            assert (await transport.send(again)).body["data"] == {"of": "2"}
            await transport.send(apply("3"))
            with pytest.raises(Conflict, match="commit 3 was applied meanwhile"):
                await renewed(transport, ours, old)
            await transport.send(request("delete"))
            assert await refused(transport, bound(ours, old))
            with pytest.raises(Conflict, match="it was deleted meanwhile"):
                await renewed(transport, ours, old)

    asyncio.run(play())
