"""An onlooker of the shop's pods: at no moment are more of a CloneSet down than it allows."""

from __future__ import annotations

from contextlib import aclosing
from typing import Any

from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import OPENED, ApiRequest
from tests.kube.real.shop import PODS

ALLOWED = {"cart": 2, "checkout": 2, "search": 0}  # maxUnavailable of the example's CloneSets


class Budgets:
    """Judges each version of each pod in the order of writes; each CloneSet has `replicas`."""

    def __init__(self, transport: Transport, replicas: int, namespace: str = "shop") -> None:
        self._transport, self._namespace = transport, namespace
        self._pods: dict[str, Obj] = {}
        self.replicas = replicas
        self.judged = 0
        self.broken: list[tuple[str, int]] = []  # (CloneSet, pods that were down)

    async def run(self) -> None:
        """Until cancelled. The API server must not go away meanwhile: no event may be missed."""
        body = (
            await self._transport.send(
                ApiRequest(verb="list", resource=PODS, namespace=self._namespace)
            )
        ).body
        self._pods = {pod["metadata"]["uid"]: thaw(pod) for pod in body["items"]}
        request = ApiRequest(
            verb="watch", resource=PODS, namespace=self._namespace,
            params={"resourceVersion": body["metadata"]["resourceVersion"],
                    "timeoutSeconds": "3600"},
        )  # fmt: skip
        stream: Any = self._transport.watch(request)
        async with aclosing(stream) as events:
            async for event in events:
                if event.type != OPENED:
                    self._look(event.type, thaw(event.object))

    def _look(self, kind: str, pod: Obj) -> None:
        uid, app = pod["metadata"]["uid"], pod["metadata"]["labels"]["app"]
        if kind == "DELETED":
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod
        up = sum(
            _serves(other)
            for other in self._pods.values()
            if other["metadata"]["labels"]["app"] == app
        )
        self.judged += 1
        if self.replicas - up > ALLOWED[app]:
            self.broken.append((app, self.replicas - up))


def _serves(pod: Obj) -> bool:
    conditions = {c["type"]: c["status"] for c in get(pod, "status", "conditions", default=())}
    gates = [g["conditionType"] for g in get(pod, "spec", "readinessGates", default=())]
    wanted = ["Ready", *gates]
    leaving = "deletionTimestamp" in pod["metadata"]
    return not leaving and all(conditions.get(name) == "True" for name in wanted)
