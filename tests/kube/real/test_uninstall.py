"""`gitkruise uninstall` on a real API server: every object before and after it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise.errors import MethodNotAllowed, NotFound
from gitkruise.gitops.install.installer import InstallOptions, manifests
from gitkruise.gitops.resources.declared import FINALIZER
from gitkruise.kube.client.discovery import listed, served_catalog
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.webhook.registration import CONVERTED, Address, Registrar
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.kube.real.apiserver import STRANGER, Apiserver, talking
from tests.kube.real.controllers import controller_manager
from tests.kube.real.installed import command
from tests.kube.real.shop import HANG_S, pods_run

pytestmark = [pytest.mark.kube, pytest.mark.slow]
CONTROLLERS: Final = (
    "deployment", "replicaset", "namespace", "garbage-collector", "serviceaccount",
)  # fmt: skip
SPACE: Final = "gitkruise-system"
# Objects that the API server and its controllers write by themselves.
FLEETING: Final = frozenset({"Event", "Lease", "Endpoints", "EndpointSlice", "APIService"})
PLURALS: Final = {
    "Namespace": "namespaces", "ConfigMap": "configmaps", "Deployment": "deployments",
    "CloneSet": "clonesets", "Pod": "pods", "GitSource": "gitsources", "Unit": "units",
    "Lease": "leases", "ClusterRole": "clusterroles", "ClusterRoleBinding": "clusterrolebindings",
}  # fmt: skip


def obj(api: str, kind: str, name: str, space: str = "shop", **rest: Any) -> dict[str, Any]:
    meta = {"name": name, **({"namespace": space} if space else {}), **rest.pop("metadata", {})}
    return {"apiVersion": api, "kind": kind, "metadata": meta, **rest}


def template(name: str) -> dict[str, Any]:
    containers = [{"name": "main", "image": "web:1"}]
    return {"metadata": {"labels": {"app": name}}, "spec": {"containers": containers}}


def workload(name: str) -> dict[str, Any]:
    return {
        "replicas": 2,
        "selector": {"matchLabels": {"app": name}},
        "template": template(name),
    }


THEIRS: Final = (
    obj("v1", "Namespace", "shop", ""),
    obj("v1", "ConfigMap", "settings", data={"a": "b"}),
    obj("apps/v1", "Deployment", "plain", spec=workload("plain")),
)
APPLIED: Final = (
    obj("apps.kruise.io/v1beta1", "CloneSet", "web", spec=workload("web"),
        metadata={"labels": {"gitkruise.io/unit": "shop.web"}}),
    obj("gitkruise.io/v1alpha1", "GitSource", "src",
        spec={"url": "https://git.example.com/shop.git", "ref": {"branch": "main"}}),
    obj("gitkruise.io/v1alpha1", "Unit", "web", metadata={"finalizers": [FINALIZER]},
        spec={"sourceRef": {"name": "src"}, "path": "web", "serviceAccountName": "shop",
              "prune": {"deletionPolicy": "Delete"}}),
    obj("coordination.k8s.io/v1", "Lease", "gitkruise-sync-units", "kube-system",
        metadata={"annotations": {"gitkruise.io/units": "{}"}}, spec={}),
)  # fmt: skip


async def create(admin: HttpTransport, made: Obj) -> Obj:
    group, _, version = made["apiVersion"].rpartition("/")
    ref = ResourceRef(group, version, PLURALS[made["kind"]])
    space = made["metadata"].get("namespace", "")
    request = ApiRequest(verb="create", resource=ref, namespace=space, body=made)
    return (await admin.send(request)).body


async def owned_pods(admin: HttpTransport, owner: Obj) -> None:
    """The pods of the CloneSet, as its controller makes them."""
    meta = owner["metadata"]
    ref = {
        "apiVersion": owner["apiVersion"], "kind": "CloneSet", "name": meta["name"],
        "uid": meta["uid"], "controller": True, "blockOwnerDeletion": True,
    }  # fmt: skip
    for number in range(2):
        meta = {"labels": {"app": "web"}, "ownerReferences": [ref]}
        spec = template("web")["spec"]
        pod = obj("v1", "Pod", f"web-{number}", metadata=meta, spec=spec)
        await create(admin, pod)


async def everything(admin: HttpTransport) -> dict[ObjectKey, str]:
    """Every object of the cluster, as text."""
    catalog = await served_catalog(admin, load_catalog())
    found: dict[ObjectKey, str] = {}
    for name in {kind.group_kind for kind in catalog.kinds()}:
        kind = catalog.stored(name)
        if kind is None or "list" not in kind.verbs:
            continue
        try:
            objects = await listed(admin, kind.ref)
        except (NotFound, MethodNotAllowed):
            continue
        for each in objects:
            meta = each["metadata"]
            key = ObjectKey(*name, meta.get("namespace") or "", meta["name"])
            found[key] = json.dumps(thaw(each), sort_keys=True)
    return found


async def settled(admin: HttpTransport, names: Collection[str]) -> dict[ObjectKey, str]:
    """Everything, once the pods of all workloads run and nothing changes any more."""
    before: dict[ObjectKey, str] = {}
    for _ in range(int(HANG_S)):
        now = await everything(admin)
        pods = [text for key, text in now.items() if key.kind == "Pod"]
        started = all(any(f'"{name}' in pod for pod in pods) for name in names)
        same = {k: v for k, v in now.items() if k.kind not in FLEETING} == {
            k: v for k, v in before.items() if k.kind not in FLEETING
        }
        if started and same and all('"phase": "Running"' in pod for pod in pods):
            return now
        before = now
        await asyncio.sleep(1)
    raise AssertionError("the cluster does not come to rest")


def lasting(objects: dict[ObjectKey, str]) -> dict[ObjectKey, str]:
    return {key: text for key, text in objects.items() if key.kind not in FLEETING}


@pytest.mark.filterwarnings("ignore:Callback with id")
def test_what_was_there_is_untouched_and_what_stays_is_reported(
    fresh: Apiserver, tmp_path: Path
) -> None:
    words = ("--kubeconfig", str(fresh.kubeconfig()))

    async def run(*more: str) -> Any:
        done = await asyncio.to_thread(command, *more, "-o", "json", *words, root=tmp_path)
        assert done.returncode == 0, done.stderr + done.stdout
        items = json.loads(done.stdout)["items"]
        return {ObjectKey(**item["object"]): item for item in items}

    async def play() -> None:
        async with talking(fresh) as admin, pods_run(admin):
            for made in THEIRS:
                await create(admin, made)
            before = lasting(await settled(admin, ["plain"]))
            await run("install", "--webhooks")
            for made in APPLIED:
                created = await create(admin, made)
                if made["kind"] == "CloneSet":
                    await owned_pods(admin, created)
            address = Address(namespace=SPACE, service="gitkruise-webhook")
            await Registrar(admin, address).publish(fresh.ca_pem.encode())
            there = await settled(admin, ["plain", "web-", "gitkruise-webhook-"])

            dry = await run("uninstall", "--dry-run")
            assert lasting(await everything(admin)) == lasting(there), "a dry run writes nothing"
            report = await run("uninstall", "--yes")
            after = await settled(admin, ["plain", "web-"])
            changes = {key: item["change"] for key, item in report.items()}
            assert {key: item["change"] for key, item in dry.items()} == changes
            check(before, there, after, changes)
            again = await run("uninstall", "--yes")
            assert {item["change"] for item in again.values()} == {"stays"}
            assert lasting(await everything(admin)) == lasting(after)

    with controller_manager(fresh, CONTROLLERS):
        asyncio.run(play())


def check(
    before: dict[ObjectKey, str],
    there: dict[ObjectKey, str],
    after: dict[ObjectKey, str],
    changes: dict[ObjectKey, str],
) -> None:
    """Compare the objects before the installation, before its removal and after it."""
    assert {key: after.get(key) for key in before} == before, "untouched, byte for byte"
    web = [k for k in there if k.namespace == "shop" and k.kind in {"CloneSet", "Pod"}]
    assert len(web) == 5
    assert {key: after.get(key) for key in web} == {key: there[key] for key in web}
    brought = {key_of(o) for o in manifests(InstallOptions(webhooks=True))}
    left = set(lasting(after)) - set(before) - set(web)
    assert left == {key for key in brought if key.name.endswith(".kruise.io")}
    for key in left:
        assert changes[key] in {"stays", "configured"}
        assert (key.name in CONVERTED) or after[key] == there[key]
    removed = {key for key, change in changes.items() if change == "removed"}
    assert brought - left <= removed
    assert not removed & set(after)
    assert not [key for key in after if key.kind == "Lease" and key.name.startswith("gitkruise")]
    assert not [key for key in after if key.namespace == SPACE]


def test_rights_are_asked_before_the_first_change(fresh: Apiserver, tmp_path: Path) -> None:
    installed = command("install", "--kubeconfig", str(fresh.kubeconfig()), root=tmp_path)
    assert installed.returncode == 0, installed.stderr
    rbac = "rbac.authorization.k8s.io"
    rule = {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list"]}
    role = obj(f"{rbac}/v1", "ClusterRole", "reader", "", rules=[rule])
    binding = obj(
        f"{rbac}/v1", "ClusterRoleBinding", "reader", "",
        roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": "reader"},
        subjects=[{"apiGroup": rbac, "kind": "User", "name": "stranger"}],
    )  # fmt: skip

    async def play() -> None:
        async with talking(fresh) as admin:
            for made in (role, binding):
                await create(admin, made)
            before = lasting(await everything(admin))
            reader = fresh.kubeconfig(STRANGER, name="reader")
            words = ("uninstall", "--yes", "--kubeconfig", str(reader))
            done = await asyncio.to_thread(command, *words, root=tmp_path)
            assert done.returncode == 5, done.stderr
            assert "GK4507" in done.stderr
            assert "delete " in done.stderr
            assert lasting(await everything(admin)) == before

    asyncio.run(play())
