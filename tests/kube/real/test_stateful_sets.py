"""An Advanced StatefulSet on a real API server, driven as on the embedded cluster."""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from gitkruise.driving import sandbox_controllers
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.unit_state import State
from gitkruise.sandbox.server import SandboxOptions, serve
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ResourceRef
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.controllers import controller_manager
from tests.kube.real.shop import (
    HANG_S,
    PODS,
    REVISIONS,
    Shop,
    following,
    install_crds,
    listed,
    pods_run,
)
from tests.planner.statefulset.build import DATA, GATE, IN_PLACE, advanced

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]
SPACE: Final = "stateful"
SETS: Final = ResourceRef("apps.kruise.io", "v1beta1", "statefulsets")
CLAIMS: Final = ResourceRef("", "v1", "persistentvolumeclaims")
# They end claims whose owner is gone.
CONTROLLERS: Final = ("garbage-collector", "persistentvolumeclaim-protection")


def database(
    replicas: int, image: str = "app:v1", *, partition: int = 0, env: str = "", **spec: Any
) -> Obj:
    """Pods with a claim that goes when the pod is surplus."""
    fields = {
        "volumeClaimTemplates": [DATA],
        "persistentVolumeClaimRetentionPolicy": {"whenScaled": "Delete"},
        **spec,
    }
    rolling = {**IN_PLACE, "partition": partition}
    made = advanced(replicas, image=image, pod=GATE, rolling=rolling, **fields)
    if env:
        made["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": env}]
    return made


# commit, its manifest, the state of its unit
STEPS: Final[tuple[tuple[str, Obj, State], ...]] = (
    ("three pods", database(3), State.DONE),
    ("scale out", database(5), State.DONE),
    ("canary in place", database(5, "app:v2", partition=3), State.HELD),
    ("all in place", database(5, "app:v2"), State.DONE),
    ("recreate", database(5, "app:v2", env="b"), State.DONE),
    ("reserve 1", database(5, "app:v2", env="b", reserveOrdinals=[1]), State.DONE),
    ("scale in", database(3, "app:v2", env="b", reserveOrdinals=[1]), State.DONE),
)


@dataclass(frozen=True)
class Seen:
    """What a step leads to. `kept` are pods that were there before it."""

    images: dict[str, str]
    kept: set[str]
    status: dict[str, Any]
    revisions: set[str]


class Play:
    """The steps on one cluster."""

    def __init__(self, transport: Transport) -> None:
        self.transport = transport
        self.seen: dict[str, Seen] = {}
        self._uids: dict[str, str] = {}

    async def rest(self) -> tuple[Obj, list[Obj]]:
        """The set and its pods, once its status and the claims have caught up with them."""
        async with asyncio.timeout(HANG_S):
            while True:
                (found,) = await listed(self.transport, SETS, SPACE)
                pods = await listed(self.transport, PODS, SPACE)
                claims = {
                    c["metadata"]["name"] for c in await listed(self.transport, CLAIMS, SPACE)
                }
                wanted = found["spec"]["replicas"]
                status = found["status"]
                settled = status["availableReplicas"] == status["replicas"] == wanted == len(pods)
                hashes = [pod["metadata"]["labels"]["controller-revision-hash"] for pod in pods]
                settled &= status["updatedReplicas"] == hashes.count(status["updateRevision"])
                if settled and claims == {f"data-{pod['metadata']['name']}" for pod in pods}:
                    return found, pods
                await asyncio.sleep(0.1)

    async def look(self, step: str) -> None:
        found, pods = await self.rest()
        uids = {pod["metadata"]["name"]: pod["metadata"]["uid"] for pod in pods}
        revisions = await listed(self.transport, REVISIONS, SPACE)
        self.seen[step] = Seen(
            images={p["metadata"]["name"]: p["spec"]["containers"][0]["image"] for p in pods},
            kept={name for name, uid in uids.items() if self._uids.get(name) == uid},
            # volumeClaims counts bound claims, and nothing binds them on the real cluster.
            status={k: v for k, v in found["status"].items() if k != "volumeClaims"},
            revisions={revision["metadata"]["name"] for revision in revisions},
        )
        self._uids = uids


@asynccontextmanager
async def _embedded(config: Path) -> AsyncIterator[HttpTransport]:
    options = SandboxOptions(ephemeral=True, speed=20.0, seed=1, kubeconfig=config, nodes=3)
    async with serve(options, controllers=sandbox_controllers):
        transport = HttpTransport(from_kubeconfig([config]), SystemClock())
        try:
            yield transport
        finally:
            await transport.close()


def _repository(folder: Path) -> Shop:
    shop = Shop(folder, namespace=SPACE)
    shutil.rmtree(shop.clone / "apps")
    (shop.clone / "apps").mkdir()
    return shop


def test_each_step_of_an_advanced_stateful_set_ends_alike(fresh: Apiserver, tmp_path: Path) -> None:
    async def play() -> tuple[Play, Play, int]:
        shop = _repository(tmp_path)
        async with (
            talking(fresh) as real,
            pods_run(real) as kubelet,
            _embedded(tmp_path / "kubeconfig") as embedded,
        ):
            await install_crds(real)
            here, there = Play(real), Play(embedded)
            namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": SPACE}}
            (shop.clone / "apps" / "space.yaml").write_text(yaml.safe_dump(namespace))
            async with (
                following(shop, real, "real") as (_, on_real),
                following(shop, embedded, "embedded") as (_, on_embedded),
            ):
                for step, manifest, state in STEPS:
                    placed = {**manifest, "metadata": {"name": "db", "namespace": SPACE}}
                    (shop.clone / "apps" / "db.yaml").write_text(yaml.safe_dump(placed))
                    commit = shop.push(step)
                    for news, side in ((on_real, here), (on_embedded, there)):
                        await news.settled(commit, state)
                        await side.look(step)
        return here, there, len(kubelet.restarts)

    with controller_manager(fresh, CONTROLLERS):
        here, there, restarts = asyncio.run(play())
    for step, _, _ in STEPS:
        assert here.seen[step] == there.seen[step], step
    canary, recreated = here.seen["canary in place"], here.seen["recreate"]
    assert [name for name, image in canary.images.items() if image == "app:v2"] == ["db-3", "db-4"]
    assert canary.kept == set(canary.images)
    assert recreated.kept == set()
    assert restarts == 5
    last = here.seen["scale in"]
    assert set(last.images) == {"db-0", "db-2", "db-3"}
