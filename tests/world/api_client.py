"""A model cluster spoken to in URLs, so that rows read like a transcript."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qsl, urlsplit

from gitkruise.errors import ApiError
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON,
    JSON_PATCH,
    MERGE_PATCH,
    STRATEGIC_PATCH,
    ApiReply,
    ApiRequest,
    ResourceRef,
    WatchEvent,
)
from gitkruise.world.api.cluster import World

RECORDED: Final = Path(__file__).parent / "recorded"
NOON: Final = datetime(2026, 6, 1, 12, tzinfo=UTC)
CONFIG_MAPS: Final = "/api/v1/namespaces/default/configmaps"
PODS: Final = "/api/v1/namespaces/default/pods"
WIDGETS: Final = "/apis/ex.io/v1/namespaces/default/widgets"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_VERBS: Final = {
    "GET": "get",
    "POST": "create",
    "PUT": "update",
    "PATCH": "patch",
    "DELETE": "delete",
}
_OF_NAMESPACE: Final = ("status", "finalize")


def recorded(name: str) -> Any:
    """A data file: what a kube-apiserver 1.34 answered, or what it was asked with."""
    return json.loads((RECORDED / name).read_text())


def request(method: str, url: str, body: Any = None, content_type: str = JSON) -> ApiRequest:
    """The request a URL, a body and a method stand for; writes name a manager unless they apply."""
    parts = urlsplit(url)
    params = dict(parse_qsl(parts.query, keep_blank_values=True))
    steps = parts.path.strip("/").split("/")
    group, steps = (steps[1], steps[2:]) if steps[0] == "apis" else ("", steps[1:])
    version, steps = steps[0], steps[1:]
    namespace = ""
    if steps[0] == "namespaces" and len(steps) > 2 and steps[2] not in _OF_NAMESPACE:
        namespace, steps = steps[1], steps[2:]
    plural, name, subresource = (*steps, "", "")[:3]
    verb = _VERBS[method]
    verb = {"get": "list", "delete": "deletecollection"}.get(verb, verb) if not name else verb
    if "watch" in params:
        verb = "watch"
        del params["watch"]
    if method in ("POST", "PUT", "PATCH") and content_type != APPLY_PATCH:
        params.setdefault("fieldManager", "kx")
    return ApiRequest(
        verb=verb,
        resource=ResourceRef(group, version, plural),
        namespace=namespace,
        name=name,
        subresource=subresource,
        body=body,
        content_type=content_type,
        params=params,
    )


@dataclass
class Api:
    """One World and its clock; `send` advances nothing, `wait` does."""

    world: World = field(default_factory=lambda: World(load_catalog()))
    now: datetime = NOON

    def reply(self, method: str, url: str, body: Any = None, content_type: str = JSON) -> ApiReply:
        return self.world.handle(request(method, url, body, content_type), self.now, user="admin")

    def send(self, method: str, url: str, body: Any = None, content_type: str = JSON) -> Any:
        return self.reply(method, url, body, content_type).body

    def answer(
        self, method: str, url: str, body: Any = None, content_type: str = JSON
    ) -> tuple[int, Any]:
        """(HTTP status, body) whether it was refused or not."""
        try:
            reply = self.reply(method, url, body, content_type)
        except ApiError as error:
            return error.status, error.as_status()
        return reply.status, reply.body

    def code(self, method: str, url: str, body: Any = None, content_type: str = JSON) -> int:
        return self.answer(method, url, body, content_type)[0]

    def get(self, url: str) -> Any:
        return self.send("GET", url)

    def post(self, url: str, body: Any) -> Any:
        return self.send("POST", url, body)

    def merge(self, url: str, body: Any) -> Any:
        return self.send("PATCH", url, body, MERGE_PATCH)

    def json_patch(self, url: str, body: Any) -> Any:
        return self.send("PATCH", url, body, JSON_PATCH)

    def strategic(self, url: str, body: Any) -> Any:
        return self.send("PATCH", url, body, STRATEGIC_PATCH)

    def apply(self, url: str, body: Any, manager: str = "gk", *, force: bool = False) -> Any:
        query = f"?fieldManager={manager}" + ("&force=true" if force else "")
        return self.send("PATCH", url + query, body, APPLY_PATCH)

    def delete(self, url: str, body: Any = None) -> Any:
        return self.send("DELETE", url, body)

    def watch(self, url: str, since: int = 0) -> tuple[list[WatchEvent], int]:
        return self.world.watch(
            request("GET", url + ("&" if "?" in url else "?") + "watch=1"), since
        )

    def wait(self, **span: float) -> datetime:
        self.now += timedelta(**span)
        return self.now

    def names(self, url: str) -> list[str]:
        return [item["metadata"]["name"] for item in self.get(url)["items"]]


def config_map(name: str, data: Any = None, **meta: Any) -> dict[str, Any]:
    obj: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, **meta},
    }
    return obj if data is None else {**obj, "data": data}


def pod(name: str, node: str = "", **meta: Any) -> dict[str, Any]:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "web:1"}]}
    if node:
        spec["nodeName"] = node
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name, **meta}, "spec": spec}


def owned_by(owner: Obj, *, blocks: bool = True) -> dict[str, Any]:
    """The owner reference to an object as it was answered."""
    return {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "blockOwnerDeletion": blocks,
    }


def key(group: str, kind: str, name: str, namespace: str = "default") -> ObjectKey:
    return ObjectKey(group, kind, namespace, name)
