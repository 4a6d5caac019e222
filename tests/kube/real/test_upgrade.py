"""`gitkruise upgrade` on a real API server: stored versions, and a rollout in the middle."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from gitkruise import __version__
from gitkruise.gitops.install.installer import Installer, InstallOptions
from gitkruise.kube.client.discovery import CRDS
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.gitops.install.earlier import GONE, STORED, UNITS, VERSION, earlier
from tests.kube.real.apiserver import STRANGER, Apiserver, talking
from tests.kube.real.controllers import controller_manager
from tests.kube.real.installed import command
from tests.kube.real.shop import PODS, Shop, following, listed, pods_run
from tests.kube.real.test_uninstall import obj as made

pytestmark = [
    pytest.mark.kube,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:Callback with id"),  # watchdog, about a folder seen twice
]
CONTROLLERS: Final = ("deployment", "replicaset", "serviceaccount")
ROLES: Final = ResourceRef("rbac.authorization.k8s.io", "v1", "clusterroles")
BINDINGS: Final = ROLES._replace(plural="clusterrolebindings")
SPACES: Final = ResourceRef("", "v1", "namespaces")
STORED_UNITS: Final = ResourceRef("gitkruise.io", STORED, "units")
NEW_UNITS: Final = ResourceRef("gitkruise.io", "v1alpha1", "units")


async def install_earlier(admin: HttpTransport) -> None:
    options = InstallOptions()
    installer = Installer(admin, load_catalog(), SystemClock(), options)
    await installer.install(earlier(options))


async def sent(admin: HttpTransport, verb: str, ref: ResourceRef, **more: Any) -> Obj:
    return thaw((await admin.send(ApiRequest(verb=verb, resource=ref, **more))).body)


async def store_unit(admin: HttpTransport) -> Obj:
    """A Unit in the version of the earlier release."""
    await sent(admin, "create", SPACES, body=made("v1", "Namespace", "team", ""))
    spec = {"sourceRef": {"name": "src"}, "path": "web", "suspend": True}
    unit = made(f"gitkruise.io/{STORED}", "Unit", "web", "team", spec=spec)
    return await sent(admin, "create", STORED_UNITS, namespace="team", body=unit)


async def check_stored(admin: HttpTransport, before: Obj) -> None:
    """Compare the definition and its object with those of before the upgrade."""
    crd = await sent(admin, "get", CRDS, name=UNITS)
    assert crd["status"]["storedVersions"] == ["v1alpha1"]
    assert [v["name"] for v in crd["spec"]["versions"]] == ["v1alpha1"]
    after = await sent(admin, "get", NEW_UNITS, namespace="team", name="web")
    assert after["spec"] == before["spec"]
    new, old = after["metadata"], before["metadata"]
    assert (new["uid"], new["generation"]) == (old["uid"], old["generation"])
    assert int(new["resourceVersion"]) > int(old["resourceVersion"]), "it was written again"


async def hold_canary(admin: HttpTransport, shop: Shop) -> str:
    """A rollout that the earlier controller leaves in the middle; return its commit."""
    commit = shop.push("The shop")
    async with following(shop, admin) as (_, news):
        await news.settled(commit)
        shop.edit("checkout", ("v2.4.0", "v2.4.1"), ("partition: 0", "partition: 2"))
        commit = shop.push("Canary")
        await news.settled(commit, State.HELD)
    return commit


def test_stored_objects_move_to_the_new_version_while_a_rollout_is_held(
    fresh: Apiserver, tmp_path: Path
) -> None:
    """An earlier release with a canary in the middle: no pod of it is restarted or replaced."""
    words = ("upgrade", "--kubeconfig", str(fresh.kubeconfig()))

    async def upgrade(*more: str) -> subprocess.CompletedProcess[str]:
        done = await asyncio.to_thread(command, *words, *more, root=tmp_path)
        assert done.returncode == 0, done.stderr
        return done

    async def play() -> None:
        async with talking(fresh) as admin, pods_run(admin) as kubelet:
            await install_earlier(admin)
            stored, shop = await store_unit(admin), Shop(tmp_path)
            canary = await hold_canary(admin, shop)
            pods = await listed(admin, PODS)
            restarts = list(kubelet.restarts)
            assert len(restarts) == 1, "one of three pods has the new image"

            dry = await upgrade("--dry-run")
            moved = f"1 object stored in {STORED} to v1alpha1"
            assert f"to change   CustomResourceDefinition {UNITS}" in dry.stdout
            assert f"to remove   ClusterRole {GONE}: {__version__} does not have it" in dry.stdout
            assert f"to migrate  CustomResourceDefinition {UNITS}: {moved}" in dry.stdout
            assert f"gitkruise {VERSION} → {__version__}: " in dry.stderr
            (migration,) = json.loads((await upgrade("--yes", "-o", "json")).stdout)["migrations"]
            assert (migration["from"], migration["objects"]) == ([STORED], 1)
            await check_stored(admin, stored)
            await check_pods(admin, pods)
            assert kubelet.restarts == restarts, "no container was restarted"
            assert "nothing to change" in (await upgrade("--yes")).stderr

            async with following(shop, admin) as (_, news):
                await news.settled(canary, State.HELD)
                await check_pods(admin, pods)
                shop.edit("checkout", ("partition: 2", "partition: 0"))
                await news.settled(shop.push("The rest"))
            assert len(kubelet.restarts) == 3, "the new controller went on with the rollout"
            assert {uid(pod) for pod in await listed(admin, PODS)} == {uid(pod) for pod in pods}

    with controller_manager(fresh, CONTROLLERS):
        asyncio.run(play())


def uid(obj: Obj) -> str:
    return str(obj["metadata"]["uid"])


async def check_pods(admin: HttpTransport, pods: Sequence[Obj]) -> None:
    """Compare the pods of the shop with those of before, apart from their managers."""
    now = {uid(pod): pod for pod in await listed(admin, PODS)}
    assert set(now) == {uid(pod) for pod in pods}
    for pod in pods:
        same = now[uid(pod)]
        assert same["spec"] == pod["spec"]
        assert same["status"]["containerStatuses"] == pod["status"]["containerStatuses"]


def test_rights_are_asked_before_the_first_change(fresh: Apiserver, tmp_path: Path) -> None:
    """Who may apply everything and rewrite nothing changes nothing."""
    rbac = "rbac.authorization.k8s.io"
    rules = [
        {"apiGroups": ["*"], "resources": ["*"], "verbs": ["get", "list", "create"]},
        {"apiGroups": ["apps", "apiextensions.k8s.io", "", rbac],
         "resources": ["deployments", "customresourcedefinitions", "namespaces",
                       "serviceaccounts", "configmaps", "services", "clusterroles", "roles",
                       "clusterrolebindings", "rolebindings"],
         "verbs": ["patch", "escalate", "bind"]},
    ]  # fmt: skip
    role = made(f"{rbac}/v1", "ClusterRole", "installer", "", rules=rules)
    binding = made(
        f"{rbac}/v1", "ClusterRoleBinding", "installer", "",
        roleRef={"apiGroup": rbac, "kind": "ClusterRole", "name": "installer"},
        subjects=[{"apiGroup": rbac, "kind": "User", "name": "stranger"}],
    )  # fmt: skip

    async def play() -> None:
        async with talking(fresh) as admin:
            await install_earlier(admin)
            for ref, body in (
                (ROLES, role),
                (ROLES._replace(plural="clusterrolebindings"), binding),
            ):
                await sent(admin, "create", ref, body=body)
            before = await sent(admin, "get", CRDS, name=UNITS)
            config = fresh.kubeconfig(STRANGER, name="installer")
            words = ("upgrade", "--yes", "--kubeconfig", str(config))
            done = await asyncio.to_thread(command, *words, root=tmp_path)
            assert done.returncode == 5, done.stderr
            assert "GK4507" in done.stderr
            assert f"patch customresourcedefinitions/status.{CRDS.group}" in done.stderr
            assert "delete clusterroles" in done.stderr
            assert await sent(admin, "get", CRDS, name=UNITS) == before

    asyncio.run(play())
