"""A webhook service beside a model cluster, and an API server's way of asking it."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import aiohttp

from gitkruise.kube.serve.addresses import Listen
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.webhook.registration import Address
from gitkruise.webhook.service import Serving, WebhookOptions, serve_webhooks
from gitkruise.wire.patch.json_patch import json_patch
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.api.cluster import World
from tests.worlds import START, empty_world

NAMESPACE: Final = "gitkruise-system"
JSON: Final = {"Content-Type": "application/json"}


@dataclass
class Hooked:
    """A service that is up: `ask` is what an API server does."""

    session: aiohttp.ClientSession
    serving: Serving
    folder: Path
    transport: WorldTransport

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.serving.port}"

    async def post(
        self, path: str, body: bytes, headers: dict[str, str] = JSON
    ) -> tuple[int, bytes]:
        async with self.session.post(
            self.url + path, data=io.BytesIO(body), headers=headers
        ) as answer:
            return answer.status, await answer.read()

    async def ask(self, path: str, body: Any) -> Any:
        """The response of the review. The status must be 200."""
        status, text = await self.post(path, json.dumps(body).encode())
        assert status == 200, text
        return json.loads(text)["response"]


@asynccontextmanager
async def hooked(
    folder: Path, world: World | None = None, *, port: int = 0, gates: Gates | None = None
) -> AsyncIterator[Hooked]:
    cluster = Cluster(world or empty_world(), lambda: START)
    transport = WorldTransport(cluster)
    options = WebhookOptions(
        address=Address(namespace=NAMESPACE, url="https://127.0.0.1:1"),
        listen=Listen("127.0.0.1", port),
        folder=folder / "keys",
        gates=gates or Gates(),
    )
    async with serve_webhooks(options, transport, load_catalog(), SystemClock()) as serving:
        trust = ssl.create_default_context(cafile=str(folder / "keys" / "ca.crt"))
        connector = aiohttp.TCPConnector(ssl=trust)
        async with aiohttp.ClientSession(connector=connector) as session:
            yield Hooked(session, serving, folder / "keys", transport)


def play(
    folder: Path, script: Callable[[Hooked], Awaitable[None]], world: World | None = None
) -> None:
    async def main() -> None:
        async with hooked(folder, world) as found:
            await script(found)

    asyncio.run(main())


def sidecarset(**spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "SidecarSet",
        "metadata": {"name": "mesh"},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "containers": [{"name": "mesh", "image": "mesh:v1"}],
            **spec,
        },
    }


def review(obj: Obj | None, old: Obj | None = None, **changes: Any) -> dict[str, Any]:
    """An AdmissionReview of a create (or of an update of `old`) in namespace `shop`."""
    group, _, version = (obj or old or {}).get("apiVersion", "v1").rpartition("/")
    kind = (obj or old or {}).get("kind", "Pod")
    request: dict[str, Any] = {
        "uid": "review-1",
        "kind": {"group": group, "version": version, "kind": kind},
        "resource": {"group": group, "version": version, "resource": f"{kind.lower()}s"},
        "operation": "UPDATE" if old else "CREATE",
        "namespace": "" if kind == "SidecarSet" else "shop",
        "name": (obj or {}).get("metadata", {}).get("name", ""),
        "userInfo": {"username": "somebody"},
        "object": obj,
        "oldObject": old,
        "dryRun": False,
        **changes,
    }
    return {"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "request": request}


def patched(obj: Obj, response: Obj) -> Any:
    """`obj` with the patch of an answer."""
    assert response["allowed"] is True, response
    if "patch" not in response:
        return obj
    assert response["patchType"] == "JSONPatch"
    return json_patch(obj, json.loads(base64.b64decode(response["patch"])))
