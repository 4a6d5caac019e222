"""The webhook server as a real API server calls it: pods, our kinds, conversion, repair."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.app import controller
from gitkruise.errors import ApiError, InternalError, InvalidObject, NotFound
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.workload_spread import MATCHED
from gitkruise.model.workloads.labels import SPREAD
from gitkruise.webhook.registration import MUTATING, NAME, VALIDATING, Address, Registrar
from gitkruise.webhook.service import Serving, WebhookOptions, serve_webhooks
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver, free_port, talking
from tests.kube.real.shop import PODS, News, Shop, install_crds
from tests.webhook.test_registration import EVERYTHING

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),
    # An API server may call again while the webhook goes: the loop ends with that connection open.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
CONFIG_MAPS = ResourceRef("", "v1", "configmaps")
NAMESPACES = ResourceRef("", "v1", "namespaces")
ALPHA = ResourceRef("apps.kruise.io", "v1alpha1", "clonesets")
BETA = ResourceRef("apps.kruise.io", "v1beta1", "clonesets")
Scene = Callable[[HttpTransport, Serving, WebhookOptions], Awaitable[None]]


@asynccontextmanager
async def serving(
    transport: HttpTransport, folder: Path
) -> AsyncIterator[tuple[Serving, WebhookOptions]]:
    options = hook_options(folder)
    async with serve_webhooks(options, transport, load_catalog(), SystemClock()) as found:
        yield found, options


def play(server: Apiserver, folder: Path, scene: Scene) -> None:
    async def whole() -> None:
        async with talking(server) as transport:
            await install_crds(transport)
            await namespace(transport, "hooked")
            async with serving(transport, folder) as (found, options):
                await scene(transport, found, options)

    asyncio.run(whole())


async def namespace(transport: HttpTransport, name: str) -> None:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    await transport.send(ApiRequest(verb="create", resource=NAMESPACES, body=body))


async def create(
    transport: HttpTransport, ref: ResourceRef, obj: Obj, space: str = "hooked"
) -> Obj:
    request = ApiRequest(verb="create", resource=ref, namespace=space, body=obj)
    return (await transport.send(request)).body


async def read(transport: HttpTransport, ref: ResourceRef, name: str, space: str = "") -> Obj:
    request = ApiRequest(verb="get", resource=ref, namespace=space, name=name)
    return (await transport.send(request)).body


async def created_through_webhooks(
    transport: HttpTransport, ref: ResourceRef, obj: Obj, space: str = "hooked"
) -> Obj:
    """Created, once the server has heard of the webhooks: it watches their configurations."""
    for _ in range(200):
        try:
            return await create(transport, ref, obj, space)
        except (NotFound, InternalError):  # the version is not served yet, or not trusted yet
            await asyncio.sleep(0.05)
    raise AssertionError("the webhooks are never called")


def pod(name: str = "", **meta: Any) -> dict[str, Any]:
    env = [{"name": "KRUISE_CONTAINER_PRIORITY", "value": "5"}]
    containers = [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1", "env": env}]
    named = {"name": name} if name else {"generateName": "gen-"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, **meta},
        "spec": {"containers": containers},
    }


def cloneset(version: str, name: str = "web", **spec: Any) -> dict[str, Any]:
    labels = {"app": name}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [
        {"name": "app", "image": "nginx:alpine"}]}}  # fmt: skip
    return {
        "apiVersion": f"apps.kruise.io/{version}",
        "kind": "CloneSet",
        "metadata": {"name": name},
        "spec": {"selector": {"matchLabels": labels}, "template": template, **spec},
    }


def barrier(obj: Obj, at: int) -> Any:
    env = obj["spec"]["containers"][at].get("env") or [{}]
    return get(env[-1], "valueFrom", "configMapKeyRef")


def test_pods_clonesets_and_conversion(fresh: Apiserver, tmp_path: Path) -> None:
    async def scene(transport: HttpTransport, found: Serving, _: WebhookOptions) -> None:
        assert found.written == tuple(EVERYTHING)
        made = await created_through_webhooks(
            transport, ALPHA, cloneset("v1alpha1", updateStrategy={"partition": 2})
        )
        assert made["spec"]["updateStrategy"]["type"] == "ReCreate", "defaulted as v1alpha1"
        assert made["spec"]["replicas"] == 1
        beta = await read(transport, BETA, "web", "hooked")
        rolling = beta["spec"]["updateStrategy"]["rollingUpdate"]
        assert (rolling["partition"], rolling["podUpdatePolicy"]) == (2, "ReCreate")
        container = beta["spec"]["template"]["spec"]["containers"][0]
        assert container["terminationMessagePath"] == "/dev/termination-log"

        bad = cloneset("v1beta1", "bad", selector={"matchLabels": {"app": "else"}})
        with pytest.raises(InvalidObject, match=r"spec.template.metadata.labels") as refused:
            await create(transport, BETA, bad)
        assert "clonesets.webhook.gitkruise.io" in str(refused.value)

        stored = await create(transport, PODS, pod("p"))
        assert barrier(stored, 0) == {"name": "p-barrier", "key": "p_0"}
        assert barrier(stored, 1) == {"name": "p-barrier", "key": "p_5"}
        named = await create(transport, PODS, pod())
        name = named["metadata"]["name"]
        assert name.startswith("gen-")
        assert barrier(named, 0) == {"name": f"{name}-barrier", "key": "p_0"}
        wrong = pod("wrong")
        wrong["spec"]["containers"][1]["env"][0]["value"] = "high"
        with pytest.raises(InvalidObject, match=r"spec.containers\[1\].env\[0\].value"):
            await create(transport, PODS, wrong)
        outside = await create(transport, PODS, pod("spared"), "kube-system")
        assert barrier(outside, 0) is None
        own = pod("own", labels={"app.kubernetes.io/name": "gitkruise"})
        assert barrier(await create(transport, PODS, own), 0) is None

    play(fresh, tmp_path, scene)


def test_subsets_of_pods_and_their_records(fresh: Apiserver, tmp_path: Path) -> None:
    alpha, beta = (
        ResourceRef("apps.kruise.io", f"v1{v}1", "workloadspreads") for v in ("alpha", "beta")
    )
    term = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["a"]}]}
    zones = {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "WorkloadSpread",
        "metadata": {"name": "zones"},
        "spec": {
            "targetRef": {
                "apiVersion": "apps.kruise.io/v1beta1",
                "kind": "CloneSet",
                "name": "web",
            },
            "subsets": [
                {"name": "a", "maxReplicas": "50%", "requiredNodeSelectorTerm": term},
                {"name": "b"},
            ],
        },
    }

    async def counted(transport: HttpTransport) -> tuple[Any, ...]:
        spread = await read(transport, beta, "zones", "hooked")
        (a, _) = spread["status"]["versionedSubsetStatuses"]["versionIgnored"]
        found = (a["missingReplicas"], list(a.get("creatingPods", ())))
        return *found, list(a.get("deletingPods", ()))

    async def scene(transport: HttpTransport, found: Serving, __: WebhookOptions) -> None:
        web = await created_through_webhooks(transport, BETA, cloneset("v1beta1", replicas=2))
        await created_through_webhooks(transport, alpha, zones)
        for _ in range(200):
            if found.handler.around.store.objects(SPREAD, "hooked"):
                break
            await asyncio.sleep(0.05)
        bad = {**zones, "metadata": {"name": "second"}}
        with pytest.raises(InvalidObject, match="in conflict with other WorkloadSpread zones"):
            await create(transport, alpha, bad)
        owner = {key: web["metadata"][key] for key in ("name", "uid")}
        kind = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "controller": True}
        made = [
            await create(transport, PODS, pod(name, ownerReferences=[{**kind, **owner}]))
            for name in ("one", "two")
        ]
        notes = [one["metadata"]["annotations"][MATCHED] for one in made]
        assert notes == ['{"name":"zones","subset":"a"}', '{"name":"zones","subset":"b"}']
        (required,) = made[0]["spec"]["affinity"]["nodeAffinity"].values()
        assert required == {"nodeSelectorTerms": [term]}
        assert await counted(transport) == (0, ["one"], [])
        await transport.send(
            ApiRequest(verb="delete", resource=PODS, namespace="hooked", name="two")
        )
        assert await counted(transport) == (0, ["one"], []), "b has no limit"

    play(fresh, tmp_path, scene)


def test_dead_it_blocks_our_kinds_and_no_pods(fresh: Apiserver, tmp_path: Path) -> None:
    async def scene(transport: HttpTransport, _: Serving, __: WebhookOptions) -> None:
        await created_through_webhooks(transport, ALPHA, cloneset("v1alpha1"))

    play(fresh, tmp_path, scene)

    async def afterwards() -> None:
        async with talking(fresh) as transport:
            assert barrier(await create(transport, PODS, pod("p")), 0) is None
            with pytest.raises(ApiError, match="failed calling webhook"):
                await create(transport, BETA, cloneset("v1beta1", "other"))
            address = Address(namespace="gitkruise-system", url="https://127.0.0.1:1")
            gone = await Registrar(transport, address).withdraw()
            assert len(gone) == len(EVERYTHING)
            crd = await read(transport, CRDS, "clonesets.apps.kruise.io")
            assert get(crd, "spec", "conversion", "strategy") == "None"
            assert [v["name"] for v in crd["spec"]["versions"] if v["served"]] == ["v1beta1"]
            await created_through_webhooks(transport, BETA, cloneset("v1beta1", "other"))
            assert await Registrar(transport, address).withdraw() == []

    asyncio.run(afterwards())


def test_what_was_registered_is_kept(fresh: Apiserver, tmp_path: Path) -> None:
    async def scene(transport: HttpTransport, found: Serving, options: WebhookOptions) -> None:
        registrar = Registrar(transport, options.address)
        bundle = (tmp_path / "keys" / "ca.crt").read_bytes()
        assert await registrar.publish(bundle) == [], "nothing is written twice"
        for ref in (MUTATING, VALIDATING):
            await transport.send(ApiRequest(verb="delete", resource=ref, name=NAME))
        patch = {"spec": {"conversion": {"strategy": "None", "webhook": None}}}
        request = ApiRequest(
            verb="patch",
            resource=CRDS,
            name="clonesets.apps.kruise.io",
            body=patch,
            content_type=MERGE_PATCH,
        )
        await transport.send(request)
        assert await registrar.publish(bundle) == [
            "MutatingWebhookConfiguration",
            "ValidatingWebhookConfiguration",
            "clonesets.apps.kruise.io",
        ]
        assert await registrar.publish(bundle) == []
        await created_through_webhooks(transport, ALPHA, cloneset("v1alpha1"))
        assert found.handler.counts.answered["/mutate"] > 0

    play(fresh, tmp_path, scene)


def test_beside_the_controller_pods_start_in_order(fresh: Apiserver, tmp_path: Path) -> None:
    """`gitkruise run --webhook`: one process orders the launch of a pod and then carries it out."""

    async def whole() -> None:
        async with talking(fresh) as transport:
            await install_crds(transport)
            await namespace(transport, "hooked")
            shop = Shop(tmp_path)
            shop.push("The shop")
            options = replace(shop.options("real", News()), webhook=hook_options(tmp_path))
            async with controller(options, transport, SystemClock()):
                await created_through_webhooks(transport, ALPHA, cloneset("v1alpha1", replicas=0))
                await create(transport, PODS, pod("p"))
                released = await barrier_of(transport, 1)
                assert released == {"p_5": "true"}
                await report(transport, {"a": False, "b": True})
                assert await barrier_of(transport, 2) == {"p_5": "true", "p_0": "true"}
                await report(transport, {"a": True, "b": True})

    asyncio.run(whole())


def hook_options(folder: Path) -> WebhookOptions:
    port = free_port()
    address = Address(namespace="gitkruise-system", url=f"https://127.0.0.1:{port}")
    return WebhookOptions(address=address, listen=Listen("127.0.0.1", port), folder=folder / "keys")


async def barrier_of(transport: HttpTransport, keys: int) -> Any:
    """The data of the barrier of pod `p`, once it has so many keys."""
    found: Obj = {}
    for _ in range(600):
        try:
            found = await read(transport, CONFIG_MAPS, "p-barrier", "hooked")
        except NotFound:
            found = {}
        if len(found.get("data") or {}) >= keys:
            return found["data"]
        await asyncio.sleep(0.05)
    raise AssertionError(f"the barrier never gets {keys} keys: {found}")


async def report(transport: HttpTransport, ready: dict[str, bool]) -> None:
    """A kubelet's report of pod `p`."""
    statuses = [
        {"name": name, "ready": well, "restartCount": 0, "image": "i", "imageID": "i"}
        for name, well in ready.items()
    ]
    request = ApiRequest(
        verb="patch",
        resource=PODS,
        namespace="hooked",
        name="p",
        subresource="status",
        body={"status": {"containerStatuses": statuses}},
        content_type=MERGE_PATCH,
    )
    await transport.send(request)
