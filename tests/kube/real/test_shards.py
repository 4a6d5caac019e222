"""Three replicas share the units on a real API server; one is killed and the others have all."""

from __future__ import annotations

import asyncio
import re
import signal
from collections import defaultdict
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.lease_terms import SYNC_LEASE, shard_lease
from gitkruise.model.gitops.shards import shard_of
from gitkruise.wire.primitives.paths import get
from tests.kube.real.apiserver import talking
from tests.kube.real.replicas import Replicas, Written, audited, written
from tests.kube.real.shop import CLONESETS, HANG_S, KINDS, Shop, install_crds, pods_run

pytestmark = [pytest.mark.kube, pytest.mark.slow]
COUNT: Final = 3
PODS: Final = 3
_LOOK_S: Final = 0.2


def configure(shop: Shop) -> None:
    """Follow each CloneSet by a unit of its own."""
    units = "".join(
        f"""---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: {name}, namespace: shop}}
spec: {{sourceRef: {{name: src}}, path: apps/{name}, sinkRef: {{name: git}}, {space}}}
"""
        for name in KINDS
        for space in ["target: {namespace: shop, createNamespace: true}"]
    )
    (shop.clone / "gitkruise.yaml").write_text(f"""\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: src, namespace: shop}}
spec: {{url: {shop.bare}, ref: {{branch: main}}, interval: 5s}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: git, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}}}}}
{units}""")


async def settled(transport: Transport, image: str) -> None:
    """Wait until every CloneSet runs `image`, as a status of its newest spec says."""
    async with asyncio.timeout(HANG_S):
        while True:
            found = await listed(transport, CLONESETS)
            ready = [
                get(one, "status", "updatedReadyReplicas") == PODS
                and get(one, "status", "observedGeneration") == one["metadata"]["generation"]
                for one in found
            ]
            images = [get(o, "spec", "template", "spec", "containers")[0]["image"] for o in found]
            if ready == [True] * 3 and all(text.endswith(image) for text in images):
                return
            await asyncio.sleep(_LOOK_S)


def change(shop: Shop, image: str) -> None:
    for name in KINDS:
        path = shop.clone / "apps" / name / "cloneset.yaml"
        path.write_text(re.sub(f"/{name}:.*", f"/{name}:{image}", path.read_text()))
    shop.push(f"Images {image}")


async def spread(replicas: Replicas, *, but: str = "") -> dict[int, str]:
    """The account that has each shard, once it is not that of a dead one."""
    holders = [await replicas.holder(shard_lease(SYNC_LEASE, n), but=but) for n in range(COUNT)]
    return {n: one.account for n, one in enumerate(holders)}


async def all_different(replicas: Replicas) -> dict[int, str]:
    """The account that has each shard, once each replica has one."""
    async with asyncio.timeout(HANG_S):
        while True:
            found = await spread(replicas)
            if len(set(found.values())) == COUNT:
                return found
            await asyncio.sleep(_LOOK_S)


async def play(folder: Path) -> tuple[list[dict[int, str]], list[Written]]:
    """The holders before and after one replica was killed, and what was written meanwhile."""
    with audited(folder) as server:
        async with talking(server) as transport, pods_run(transport):
            await install_crds(transport)
            shop = Shop(folder, replicas=PODS)
            configure(shop)
            change(shop, "one")
            replicas = Replicas(server, shop)
            with closing(replicas):
                async with asyncio.TaskGroup() as group:
                    for _ in range(COUNT):
                        await replicas.start(group, "--shards", str(COUNT))
                    await settled(transport, ":one")
                    before = await all_different(replicas)
                    begun = len(written(server))
                    change(shop, "two")
                    await settled(transport, ":two")
                    writes = written(server)[begun:]
                    killed = replicas.running[before[0]]
                    killed.send(signal.SIGKILL)
                    killed.process.wait()
                    change(shop, "three")
                    after = await spread(replicas, but=killed.account)
                    await settled(transport, ":three")
                    replicas.rest()
    return [before, after], writes


def test_three_replicas_share_the_units_and_two_take_over(tmp_path: Path) -> None:
    (before, after), writes = asyncio.run(play(tmp_path))
    assert len(set(before.values())) == COUNT
    assert set(after.values()) == set(before.values()) - {before[0]}
    assert {n: who for n, who in after.items() if n != 0} == {
        n: who for n, who in before.items() if n != 0
    }
    authors = defaultdict(set)
    for one in writes:
        if one.resource in {"clonesets", "pods"}:
            key = one.name if one.resource == "clonesets" and not one.part else "driven"
            authors[key].add(one.account)
    wanted = {name: {before[shard_of(f"shop/{name}", COUNT)]} for name in KINDS}
    assert authors == wanted | {"driven": {before[shard_of("shop", COUNT)]}}
