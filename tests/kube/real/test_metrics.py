"""Authorization for the metrics of a controller that other machines can reach."""

from __future__ import annotations

import asyncio
from typing import Final

import aiohttp
import pytest

from gitkruise.gitops.telemetry.server import metered
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver, talking
from tests.kube.real.test_install import ACCOUNTS, token_of

pytestmark = pytest.mark.kube

SPACE: Final = "gitkruise-system"
RBAC: Final = "rbac.authorization.k8s.io"
ROLE: Final[Obj] = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reads-metrics"},
    "rules": [{"nonResourceURLs": ["/metrics"], "verbs": ["get"]}],
}
BINDING: Final[Obj] = {
    "apiVersion": f"{RBAC}/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "reads-metrics"},
    "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "reads-metrics"},
    "subjects": [{"kind": "ServiceAccount", "name": "scraper", "namespace": SPACE}],
}


async def create(admin: HttpTransport, ref: ResourceRef, body: Obj, namespace: str = "") -> None:
    await admin.send(ApiRequest(verb="create", resource=ref, namespace=namespace, body=body))


async def scenario(admin: HttpTransport) -> None:
    await create(admin, ResourceRef("", "v1", "namespaces"), {"metadata": {"name": SPACE}})
    for name in ("scraper", "stranger"):
        await create(admin, ACCOUNTS, {"metadata": {"name": name}}, SPACE)
    await create(admin, ResourceRef(RBAC, "v1", "clusterroles"), ROLE)
    await create(admin, ResourceRef(RBAC, "v1", "clusterrolebindings"), BINDING)
    scraper, stranger = [await token_of(admin, name) for name in ("scraper", "stranger")]
    async with (
        metered(Listen(port=0), admin, SystemClock(), public=True) as meter,
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=False)) as session,
    ):

        async def status(token: str) -> int:
            headers = {"Authorization": f"Bearer {token}"}
            async with session.get(meter.url, headers=headers) as answer:
                return answer.status

        assert await status("unknown") == 401
        assert await status(stranger) == 403
        for _ in range(200):  # until the server has heard of the binding
            if await status(scraper) == 200:
                break
            await asyncio.sleep(0.05)
        assert await status(scraper) == 200


def test_only_those_whom_rbac_lets_read_them_do(fresh: Apiserver) -> None:
    async def main() -> None:
        async with asyncio.timeout(60), talking(fresh) as admin:
            await scenario(admin)

    asyncio.run(main())
