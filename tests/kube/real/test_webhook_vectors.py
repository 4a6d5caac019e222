"""Recorded SidecarSets and pods, through the webhook of a real API server."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import ApiError, NotFound
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE
from gitkruise.planner.workloads import WORKLOADS
from gitkruise.webhook.cluster_context import ClusterContext
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.admission.injection.test_recorded_injection import (
    PARTS,
    ROWS,
    SPACE,
    by_name,
    notes,
    tidy,
)
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.shop import PODS, install_crds
from tests.kube.real.test_webhook import create, created_through_webhooks, namespace, serving

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),
    # An API server may call again while the webhook goes: the loop ends with that connection open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
SETS = {
    version: ResourceRef("apps.kruise.io", version, "sidecarsets")
    for version in ("v1alpha1", "v1beta1")
}
OFTEN = 400  # looks, a twentieth of a second apart


async def seen(context: ClusterContext, name: str) -> Obj:
    """The SidecarSet as the webhook sees it, once its revision is in the status."""
    key = ObjectKey(*SIDECARSET, "", name)
    for _ in range(OFTEN):
        found = context.store.get(key)
        if found is not None and (found.get("status") or {}).get("latestRevision"):
            return found
        await asyncio.sleep(0.05)
    raise AssertionError(f"{name} gets no revision")


async def difference(transport: HttpTransport, context: ClusterContext, row: Obj) -> str:
    """The difference between the admitted and the recorded object; "" when there is none."""
    made: list[str] = []
    try:
        for one in row["sidecarsets"]:
            manifest = one["manifest"]
            name, version = manifest["metadata"]["name"], manifest["apiVersion"].split("/")[1]
            try:
                await create(transport, SETS[version], manifest, "")
            except ApiError:
                if "rejected" not in one:
                    raise
                continue
            made.append(name)
            stored = await seen(context, name)
            if "rejected" in one or stored["status"]["latestRevision"] != one["latestRevision"]:
                return f"{name} is stored otherwise"
        return _unlike(row["admitted"], await create(transport, PODS, row["pod"], SPACE))
    except ApiError as error:
        return str(error)
    finally:
        await remove(transport, PODS, row["pod"]["metadata"]["name"], SPACE)
        for name in made:
            await remove(transport, SETS["v1beta1"], name, "")


def _unlike(want: Obj, got: Obj) -> str:
    found: Sequence[str] = [
        part
        for part in PARTS
        if by_name(tidy(want["spec"].get(part) or [])) != by_name(_ours(got["spec"].get(part)))
    ]
    return ", ".join([*found, *["annotations"] * (notes(want) != notes(got))])


def _ours(items: Any) -> list[Obj]:
    """Without the token that a server with service accounts mounts."""
    return [i for i in tidy(items or []) if not str(i.get("name")).startswith("kube-api-access-")]


async def remove(transport: HttpTransport, ref: ResourceRef, name: str, space: str) -> None:
    body = {"apiVersion": "v1", "kind": "DeleteOptions", "gracePeriodSeconds": 0}
    request = ApiRequest(verb="delete", resource=ref, namespace=space, name=name, body=body)
    try:
        await transport.send(request)
    except NotFound:
        return


def test_every_recorded_pod_is_admitted_alike(fresh: Apiserver, tmp_path: Path) -> None:
    async def whole() -> dict[int, str]:
        async with talking(fresh) as transport:
            await install_crds(transport)
            for name in (SPACE, REVISION_NAMESPACE, "hooked"):
                await namespace(transport, name)
            async with serving(transport, tmp_path) as (hooks, _), asyncio.TaskGroup() as tasks:
                clock = SystemClock()
                controllers = Controllers(
                    WORKLOADS, transport, load_catalog(), clock, ControllerOptions()
                )
                tasks.create_task(controllers.run())
                await created_through_webhooks(
                    transport, SETS["v1alpha1"], ROWS[0]["sidecarsets"][0]["manifest"], ""
                )
                name = ROWS[0]["sidecarsets"][0]["manifest"]["metadata"]["name"]
                await remove(transport, SETS["v1beta1"], name, "")
                around = hooks.handler.around
                found = {row["seed"]: await difference(transport, around, row) for row in ROWS}
                controllers.stop()
        return {seed: text for seed, text in found.items() if text}

    assert asyncio.run(whole()) == {}
