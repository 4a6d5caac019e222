"""Viewers of the dashboard on a real API server: RBAC decides which rows each of them gets."""

from __future__ import annotations

import asyncio
from typing import Final

import msgspec
import pytest

from gitkruise.dashboard.gate import Viewer
from gitkruise.dashboard.viewers import ClusterGate
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.dashboard.cluster import RULES, guarded_shop
from tests.dashboard.test_record_rights import records
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.test_install import ACCOUNTS, token_of

pytestmark = pytest.mark.kube

HOME: Final = "gitkruise-system"
RBAC: Final = "rbac.authorization.k8s.io"
ROLE: Final[Obj] = {
    "metadata": {"name": "views"},
    "rules": [
        {"apiGroups": [""], "resources": ["pods", "events"], "verbs": ["list", "watch"]},
        {"apiGroups": ["apps.kruise.io"], "resources": ["clonesets"], "verbs": ["list", "watch"]},
        {"apiGroups": ["gitkruise.io"], "resources": ["units"], "verbs": ["list", "watch"]},
    ],
}


def binding(account: str) -> Obj:
    return {
        "metadata": {"name": f"views-{account}"},
        "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "views"},
        "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": HOME}],
    }


async def create(admin: HttpTransport, ref: ResourceRef, body: Obj, namespace: str = "") -> None:
    await admin.send(ApiRequest(verb="create", resource=ref, namespace=namespace, body=body))


async def rows_of(gate: ClusterGate, token: str, topic: str = "fleet") -> set[str]:
    viewer = await entered(gate, token)
    found = (guarded_shop() if topic == "fleet" else records()).topics[topic]
    return set(await viewer.see(topic, {k: msgspec.json.encode(r) for k, r in found.items()}))


async def entered(gate: ClusterGate, token: str) -> Viewer:
    viewer = await gate.viewer({"Authorization": f"Bearer {token}"}, 0)
    assert viewer is not None
    return viewer


async def scenario(admin: HttpTransport) -> None:
    for space in (HOME, "shop", "bank"):
        await create(admin, ResourceRef("", "v1", "namespaces"), {"metadata": {"name": space}})
    for name in ("jane", "boss", "stranger"):
        await create(admin, ACCOUNTS, {"metadata": {"name": name}}, HOME)
    await create(admin, ResourceRef(RBAC, "v1", "clusterroles"), ROLE)
    await create(admin, ResourceRef(RBAC, "v1", "rolebindings"), binding("jane"), "shop")
    await create(admin, ResourceRef(RBAC, "v1", "clusterrolebindings"), binding("boss"))
    jane, boss, stranger = [await token_of(admin, n) for n in ("jane", "boss", "stranger")]
    gate = ClusterGate(admin, RULES, SystemClock())
    for _ in range(200):  # until the server has heard of the bindings
        if len(await rows_of(gate, boss)) > 1 and len(await rows_of(gate, jane)) > 1:
            break
        await asyncio.sleep(0.05)
        gate = ClusterGate(admin, RULES, SystemClock())
    assert await rows_of(gate, jane) == {"", "cloneset/shop/cart"}
    assert await rows_of(gate, boss) == {"", "cloneset/shop/cart", "cloneset/bank/ledger"}
    assert await rows_of(gate, stranger) == {""}
    mine = {"", "drift/sandbox/shop/shop/cart/spec.replicas", "intervention/sandbox/0"}
    assert await rows_of(gate, jane, "drift") == mine
    assert len(await rows_of(gate, boss, "drift")) == len(mine) + 3
    assert await rows_of(gate, stranger, "drift") == {""}
    cart, ledger = (ObjectKey("apps.kruise.io", "CloneSet", n, "x") for n in ("shop", "bank"))
    assert await (await entered(gate, jane)).shown({cart, ledger}) == {cart}
    denied = await (await entered(gate, jane)).denied("why/cloneset/bank/ledger")
    assert denied.startswith(f"system:serviceaccount:{HOME}:jane may not list clonesets")
    assert await gate.viewer({"Authorization": "Bearer wrong"}, 0) is None


def test_rbac_decides_what_a_viewer_sees(fresh: Apiserver) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), talking(fresh) as admin:
            await scenario(admin)

    asyncio.run(main())
