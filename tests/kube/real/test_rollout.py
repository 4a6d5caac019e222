"""The example shop on a real API server: rolled out and reported as on the embedded cluster."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from gitkruise.driving import sandbox_controllers
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.unit_state import State
from gitkruise.sandbox.server import SandboxOptions, serve
from gitkruise.wire.kruise.hashes import revision_hash
from gitkruise.wire.kruise.revision_data import default_template, revision_data
from gitkruise.wire.primitives.gojson import RawJSON
from gitkruise.wire.primitives.names import Obj
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.shop import (
    CLONESETS,
    REVISIONS,
    Shop,
    following,
    install_crds,
    listed,
    pods_run,
)

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]
_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
OURS = "gitkruise.io/"


@asynccontextmanager
async def _embedded(kubeconfig: Path) -> AsyncIterator[HttpTransport]:
    transport = HttpTransport(from_kubeconfig([kubeconfig]), SystemClock())
    try:
        yield transport
    finally:
        await transport.close()


def without_times(text: str, cluster: str) -> str:
    return _TIME.sub("TIME", text).replace(f"cluster: {cluster}\n", "cluster: NAME\n")


async def outcome(shop: Shop, transport: Transport, cluster: str) -> dict[str, object]:
    """Everything that must not depend on the kind of cluster: branch, annotations, revisions."""
    clonesets = await listed(transport, CLONESETS)
    return {
        "branch": {p: without_times(t, cluster) for p, t in shop.status_branch(cluster).items()},
        "annotations": {c["metadata"]["name"]: our_annotations(c) for c in clonesets},
        "specs": {c["metadata"]["name"]: c["spec"] for c in clonesets},
        "revisions": {
            r["metadata"]["name"]: bytes(r["data"]) for r in await listed(transport, REVISIONS)
        },
    }


def our_annotations(obj: Obj) -> dict[str, str]:
    found = obj["metadata"]["annotations"]
    return {name: text for name, text in found.items() if name.startswith(OURS)}


def test_a_canary_ends_alike_on_a_real_and_on_the_embedded_cluster(
    server: Apiserver, tmp_path: Path
) -> None:
    """v1alpha1 and v1beta1 manifests, in place and recreated, on a cluster that has no webhook."""

    async def play() -> tuple[dict[str, object], dict[str, object], list[tuple[str, str]]]:
        config = tmp_path / "kubeconfig"
        options = SandboxOptions(ephemeral=True, speed=20.0, seed=1, kubeconfig=config, nodes=3)
        async with (
            talking(server) as real,
            pods_run(real, "shop") as kubelet,
            serve(options, controllers=sandbox_controllers),
            _embedded(config) as embedded,
        ):
            await install_crds(real)
            shop = Shop(tmp_path)
            commit = shop.push("The shop")
            async with (
                following(shop, real, "real") as (_, here),
                following(shop, embedded, "embedded") as (_, there),
            ):
                for news in (here, there):
                    await news.settled(commit)
                shop.edit("checkout", ("v2.4.0", "v2.4.1"), ("partition: 0", "partition: 2"))
                shop.edit("cart", ("cart:v8", "cart:v9"))
                commit = shop.push("Canary")
                for news in (here, there):
                    await news.settled(commit, State.HELD)
            found = await outcome(shop, real, "real"), await outcome(shop, embedded, "embedded")
        return *found, kubelet.restarts

    real, embedded, restarts = asyncio.run(play())
    for part, value in embedded.items():
        assert real[part] == value, part
    assert [image for _, image in restarts] == ["registry.example.com/checkout:v2.4.1"]


def test_revisions_keep_their_bytes_and_are_named_after_the_defaulted_template(
    server: Apiserver, tmp_path: Path
) -> None:
    """`data` comes back byte for byte, so the hash of what is stored is the name it has."""

    async def play() -> tuple[list[Obj], list[Obj]]:
        async with talking(server) as transport, pods_run(transport, "bytes"):
            await install_crds(transport)
            shop = Shop(tmp_path, namespace="bytes")
            commit = shop.push("The shop")
            async with following(shop, transport, "bytes") as (_, news):
                await news.settled(commit)
            return (
                await listed(transport, CLONESETS, "bytes"),
                await listed(transport, REVISIONS, "bytes"),
            )

    clonesets, revisions = asyncio.run(play())
    assert len(revisions) == len(clonesets) == 3
    for cloneset, revision in zip(clonesets, revisions, strict=True):
        template = cloneset["spec"]["template"]
        assert template == default_template(template), "stored as OpenKruise's webhook stores it"
        data = revision["data"]
        assert isinstance(data, RawJSON)
        assert bytes(data) == revision_data(template)
        name = cloneset["metadata"]["name"]
        assert revision["metadata"]["name"] == f"{name}-{revision_hash(bytes(data), 0)}"
