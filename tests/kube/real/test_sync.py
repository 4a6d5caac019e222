"""Server-side apply, drift and prune on a real API server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import RunningController
from gitkruise.kube.client.http import HttpTransport
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import APPLY_PATCH, MERGE_PATCH, ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.shop import (
    CLONESETS,
    HANG_S,
    PODS,
    News,
    Shop,
    following,
    install_crds,
    listed,
    pods_run,
)

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),
]
CONFIG_MAPS = ResourceRef("", "v1", "configmaps")
SERVICES = ResourceRef("", "v1", "services")
Scene = Callable[[Shop, HttpTransport, RunningController, News], Awaitable[None]]


def play(server: Apiserver, root: Path, namespace: str, scene: Scene) -> None:
    """The shop settled in `namespace`, then `scene`."""

    async def whole() -> None:
        async with talking(server) as transport, pods_run(transport, namespace):
            await install_crds(transport)
            shop = Shop(root, namespace=namespace)
            commit = shop.push("The shop")
            async with following(shop, transport, namespace) as (running, news):
                await news.settled(commit)
                await scene(shop, transport, running, news)

    asyncio.run(whole())


async def read(transport: HttpTransport, ref: ResourceRef, namespace: str, name: str) -> Obj:
    request = ApiRequest(verb="get", resource=ref, namespace=namespace, name=name)
    return (await transport.send(request)).body


async def until(running: RunningController, check: Callable[[], Awaitable[bool]]) -> None:
    """Look again after every change the controller sees."""
    changed = asyncio.Event()
    unsubscribe = running.live.store.subscribe(lambda _: changed.set())
    try:
        async with asyncio.timeout(HANG_S):
            while not await check():
                await changed.wait()
                changed.clear()
    finally:
        unsubscribe()


def test_every_object_is_applied_by_one_manager(server: Apiserver, tmp_path: Path) -> None:
    async def scene(
        shop: Shop, transport: HttpTransport, _running: RunningController, _: News
    ) -> None:
        for ref in (CLONESETS, SERVICES):
            for obj in await listed(transport, ref, shop.namespace):
                appliers = [
                    entry["manager"]
                    for entry in obj["metadata"]["managedFields"]
                    if entry["operation"] == "Apply"
                ]
                assert appliers == ["gitkruise"], obj["metadata"]["name"]

    play(server, tmp_path, "ssa", scene)


def test_drift_of_what_git_names_is_healed_and_the_rest_is_left_alone(
    server: Apiserver, tmp_path: Path
) -> None:
    async def scene(
        shop: Shop, transport: HttpTransport, running: RunningController, _: News
    ) -> None:
        space, name = shop.namespace, "checkout-settings"
        before = (await read(transport, CONFIG_MAPS, space, name))["data"]
        wrong = dict.fromkeys(before, "by hand") | {"added": "stays"}
        await transport.send(
            ApiRequest(
                verb="patch",
                resource=CONFIG_MAPS,
                namespace=space,
                name=name,
                body={"data": wrong},
                content_type=MERGE_PATCH,
                params={"fieldManager": "kubectl-edit"},
            )
        )

        async def healed() -> bool:
            data = (await read(transport, CONFIG_MAPS, space, name))["data"]
            return bool(data == {**before, "added": "stays"})

        await until(running, healed)

    play(server, tmp_path, "drift", scene)


def test_fields_of_another_applier_are_not_taken_over(server: Apiserver, tmp_path: Path) -> None:
    """Git has no replicas of search; another manager scales it, also across commits."""

    async def scene(
        shop: Shop, transport: HttpTransport, _running: RunningController, news: News
    ) -> None:
        shop.edit("search", ("  replicas: 3\n", ""))
        await news.settled(shop.push("Leave the number to the autoscaler"))
        scaled: dict[str, Any] = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "metadata": {"name": "search", "namespace": shop.namespace},
            "spec": {"replicas": 2},
        }
        await transport.send(
            ApiRequest(
                verb="patch",
                resource=CLONESETS,
                namespace=shop.namespace,
                name="search",
                body=scaled,
                content_type=APPLY_PATCH,
                params={"fieldManager": "autoscaler", "force": "true"},
            )
        )
        await news.until(lambda r: any(x.key.name == "search" and x.total == 2 for x in r.rollouts))
        shop.edit("search", ("search:v7", "search:v8"))
        await news.settled(shop.push("A new version"))
        live = await read(transport, CLONESETS, shop.namespace, "search")
        assert get(live, "spec", "replicas") == 2

    play(server, tmp_path, "scaled", scene)


def test_prune_deletes_what_left_git_and_stops_at_its_guard(
    server: Apiserver, tmp_path: Path
) -> None:
    async def scene(
        shop: Shop, transport: HttpTransport, running: RunningController, news: News
    ) -> None:
        (shop.clone / "apps/checkout/service.yaml").unlink()
        await news.settled(shop.push("Retire one service"), State.ROLLING)

        async def gone() -> bool:
            """Deleted in the foreground; the garbage collector that would end it is not here."""
            service = await read(transport, SERVICES, shop.namespace, "checkout")
            return "deletionTimestamp" in service["metadata"]

        await until(running, gone)
        for left in ("cart", "search"):
            for path in (shop.clone / "apps" / left).iterdir():
                path.unlink()
        commit = shop.push("Retire nearly everything by mistake")
        await news.until(
            lambda r: (
                r.attempted is not None
                and r.attempted.id == commit
                and any(f.code == "GK2303" for f in r.findings)
            )
        )
        names = [c["metadata"]["name"] for c in await listed(transport, CLONESETS, shop.namespace)]
        assert names == ["cart", "checkout", "search"]

    play(server, tmp_path, "prune", scene)


def test_a_clone_set_stored_without_any_defaults_rolls_too(
    server: Apiserver, tmp_path: Path
) -> None:
    """Applied by another client on a cluster without webhooks: name and template, nothing more."""

    async def scene(
        shop: Shop, transport: HttpTransport, running: RunningController, _: News
    ) -> None:
        def bare(image: str) -> dict[str, Any]:
            pod = {"containers": [{"name": "app", "image": image}]}
            template = {"metadata": {"labels": {"app": "bare"}}, "spec": pod}
            spec = {"replicas": 2, "selector": {"matchLabels": {"app": "bare"}}}
            meta = {"name": "bare", "namespace": shop.namespace}
            return {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
                    "metadata": meta, "spec": {**spec, "template": template}}  # fmt: skip

        for image in ("bare:1", "bare:2"):
            await transport.send(
                ApiRequest(
                    verb="patch",
                    resource=CLONESETS,
                    namespace=shop.namespace,
                    name="bare",
                    body=bare(image),
                    content_type=APPLY_PATCH,
                    params={"fieldManager": "another"},
                )
            )

            async def rolled(image: str = image) -> bool:
                pods = [p for p in await listed(transport, PODS, shop.namespace) if _bare(p)]
                images = [get(p, "spec", "containers", 0, "image") for p in pods]
                ready = [c["ready"] for p in pods for c in _statuses(p)]
                return images == [image] * 2 and ready == [True] * 2

            await until(running, rolled)

    play(server, tmp_path, "bare", scene)


def test_a_clone_set_stored_without_any_defaults_is_taken_over_without_a_restart(
    server: Apiserver, tmp_path: Path
) -> None:
    async def scene(
        shop: Shop, transport: HttpTransport, running: RunningController, news: News
    ) -> None:
        space = shop.namespace
        pod = {"containers": [{"name": "app", "image": "bare:1"}]}
        template = {"metadata": {"labels": {"app": "bare"}}, "spec": pod}
        spec = {"replicas": 2, "selector": {"matchLabels": {"app": "bare"}}, "template": template}
        bare: Obj = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet",
                     "metadata": {"name": "bare", "namespace": space}, "spec": spec}  # fmt: skip
        asked = ApiRequest(
            verb="create", resource=CLONESETS, namespace=space, body=bare,
            params={"fieldManager": "kubectl-create"},
        )  # fmt: skip
        await transport.send(asked)
        names: list[str] = []

        async def born() -> bool:
            found = [p for p in await listed(transport, PODS, space) if _bare(p)]
            names[:] = sorted(p["metadata"]["name"] for p in found)
            return [c["ready"] for p in found for c in _statuses(p)] == [True] * 2

        await until(running, born)
        (shop.clone / "apps/bare.yaml").write_text(json.dumps(bare))
        await news.settled(shop.push("Take the object over"))
        found = [p for p in await listed(transport, PODS, space) if _bare(p)]
        assert sorted(p["metadata"]["name"] for p in found) == names

    play(server, tmp_path, "taken", scene)


def _bare(pod: Obj) -> bool:
    return bool(get(pod, "metadata", "labels", "app") == "bare")


def _statuses(pod: Obj) -> list[Obj]:
    return list(get(pod, "status", "containerStatuses", default=()))
