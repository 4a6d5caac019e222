"""Scheduler and kubelet of the tests: every pod runs and becomes ready."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import aclosing
from dataclasses import dataclass, field
from typing import Any

from gitkruise.errors import ApiError, Conflict, NotFound
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.planner.builtin.daemonset_nodes import placed_on
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_time

PODS = ResourceRef("", "v1", "pods")
NODES = 3


@dataclass
class Kubelet:
    """Follows pods by watch and acts once on each event; survives a server that goes away.

    Without `namespace`, those of all namespaces: of all tests that share the server, too.
    """

    transport: Transport
    clock: Clock
    may_be_ready: Callable[[Obj], bool] = lambda pod: True
    namespace: str = ""
    births: list[str] = field(default_factory=list)  # uid of every pod that ever ran
    restarts: list[tuple[str, str]] = field(default_factory=list)  # (pod, image) after the first

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            try:
                version = await self._all()
                await self._follow(version)
            except ApiError:
                await self.clock.sleep(0.1)

    async def nudge(self) -> None:
        """Look at every pod again, after `may_be_ready` changed its mind."""
        await self._all()

    async def ready(self, pod: Obj) -> None:
        """Report one running pod as ready, whatever `may_be_ready` says."""
        await self._report(pod, ready=True)

    async def _all(self) -> str:
        request = ApiRequest(verb="list", resource=PODS, namespace=self.namespace)
        body = (await self.transport.send(request)).body
        for item in body.get("items") or ():
            await self._look(thaw(item))
        return str(body["metadata"]["resourceVersion"])

    async def _follow(self, version: str) -> None:
        request = ApiRequest(
            verb="watch",
            resource=PODS,
            namespace=self.namespace,
            params={"resourceVersion": version},
        )
        stream: Any = self.transport.watch(request)
        async with aclosing(stream) as events:
            async for event in events:
                if event.type in {"ADDED", "MODIFIED"}:
                    await self._look(thaw(event.object))

    async def _look(self, pod: Obj) -> None:
        try:
            await self._sync(pod)
        except (Conflict, NotFound):
            return  # another event follows

    async def _sync(self, pod: Obj) -> None:
        meta = pod["metadata"]
        if meta.get("deletionTimestamp"):
            body = {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0}
            await self._send("delete", meta, body=body)
        elif not get(pod, "spec", "nodeName"):
            number = int(hashlib.sha256(meta["uid"].encode()).hexdigest(), 16) % NODES
            target = {
                "apiVersion": "v1",
                "kind": "Node",
                "name": placed_on(pod) or f"node-{number}",
            }
            binding = {"apiVersion": "v1", "kind": "Binding", "metadata": {"name": meta["name"]}}
            await self._send("create", meta, "binding", {**binding, "target": target})
        else:
            await self._report(pod, ready=self.may_be_ready(pod))

    async def _report(self, pod: Obj, *, ready: bool) -> None:
        old = pod.get("status") or {}
        running = {c["name"]: c for c in old.get("containerStatuses") or ()}
        statuses = [
            _container(c, running.get(c["name"]), pod, ready=ready, now=self._now())
            for c in pod["spec"]["containers"]
        ]
        conditions = {c["type"]: c for c in old.get("conditions") or ()}
        gates = [g["conditionType"] for g in get(pod, "spec", "readinessGates", default=())]
        open_ = all(get(conditions, gate, "status") == "True" for gate in gates)
        wanted = {"PodScheduled": True, "Initialized": True, "ContainersReady": ready,
                  "Ready": ready and open_}  # fmt: skip
        changed = [
            c for name, value in wanted.items() if (c := self._turned(conditions, name, value))
        ]
        if statuses == list(running.values()) and not changed:
            return
        others = [c for name, c in conditions.items() if name not in {t["type"] for t in changed}]
        status = {
            "phase": "Running",
            "conditions": [*others, *changed],
            "containerStatuses": statuses,
        }
        start = old.get("startTime") or self._now()
        body = {"metadata": {"resourceVersion": pod["metadata"]["resourceVersion"]},
                "status": {**status, "startTime": start, "podIP": "10.0.0.1"}}  # fmt: skip
        await self._send("patch", pod["metadata"], "status", body)
        self._count(pod, statuses, running)

    def _count(self, pod: Obj, statuses: list[Obj], before: Obj) -> None:
        if not before:
            self.births.append(pod["metadata"]["uid"])
        for status in statuses:
            old = before.get(status["name"])
            if old is not None and old["restartCount"] != status["restartCount"]:
                self.restarts.append((pod["metadata"]["name"], status["image"]))

    def _turned(self, conditions: Obj, name: str, value: bool) -> Obj | None:
        status = "True" if value else "False"
        if get(conditions, name, "status") == status:
            return None
        return {"type": name, "status": status, "lastTransitionTime": self._now()}

    def _now(self) -> str:
        return format_time(self.clock.now())

    async def _send(self, verb: str, meta: Obj, subresource: str = "", body: Any = None) -> None:
        await self.transport.send(
            ApiRequest(
                verb=verb,
                resource=PODS,
                namespace=meta["namespace"],
                name=meta["name"],
                subresource=subresource,
                body=body,
                content_type=MERGE_PATCH if verb == "patch" else "application/json",
            )
        )


def _container(spec: Obj, old: Obj | None, pod: Obj, *, ready: bool, now: str) -> Obj:
    """The status of a container: untouched while its image is the one that runs."""
    if old is not None and old["image"] == spec["image"]:
        return old if old["ready"] == ready else {**old, "ready": ready}
    restarts = old["restartCount"] + 1 if old else 0
    seed = f"{pod['metadata']['uid']}{spec['name']}{restarts}"
    return {
        "name": spec["name"],
        "image": spec["image"],
        "imageID": "sha256:" + hashlib.sha256(spec["image"].encode()).hexdigest(),
        "containerID": "containerd://" + hashlib.sha256(seed.encode()).hexdigest(),
        "ready": ready,
        "started": True,
        "restartCount": restarts,
        "state": {"running": {"startedAt": now}},
    }
