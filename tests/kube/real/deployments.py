"""Deployments on a real API server with kube-controller-manager, steered to their canaries."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from gitkruise.controller.controllers import Controllers
from gitkruise.errors import Conflict
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.amounts import bounds
from gitkruise.model.planning.canary import ANNOTATION, LOCK, PAUSED
from gitkruise.model.planning.canary_lock import (
    lock_of,
    unlocked,
    waiting_amounts,
)
from gitkruise.planner.builtin.canary_steering import CANARY_STEERING
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.kube.real.apiserver import Apiserver
from tests.kube.real.controllers import controller_manager
from tests.planner.builtin.played import unbegun
from tests.worlds import deployment

DEPLOYMENTS: Final = ResourceRef("apps", "v1", "deployments")
SETS: Final = ResourceRef("apps", "v1", "replicasets")
PODS: Final = ResourceRef("", "v1", "pods")
HANG_S: Final = 300.0  # a guard against hanging for ever, not a measurement
QUIET_S: Final = 1.0  # without a write, after which a rollout has come to rest


def manager(server: Apiserver) -> AbstractContextManager[None]:
    """Return kube-controller-manager with the two controllers of Deployments."""
    limits = ("--kube-api-qps=500", "--kube-api-burst=1000")
    return controller_manager(server, ("deployment", "replicaset"), *limits)


@asynccontextmanager
async def steering(transport: Transport) -> AsyncIterator[Controllers]:
    """gitkruise's part while the body runs."""
    controllers = Controllers([CANARY_STEERING], transport, load_catalog(), SystemClock())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(controllers.run())
        yield controllers
        task.cancel()


def version_of(one: Obj) -> str:
    image: str = one["spec"]["template"]["spec"]["containers"][0]["image"]
    return image.rpartition(":")[2]


@dataclass
class Watched:
    """One Deployment of a test, watched: sizes in the order of versions, and broken promises."""

    transport: Transport
    name: str
    space: str = "canary"
    raw: Obj = field(default_factory=dict)
    sets: dict[str, Obj] = field(default_factory=dict)
    pods: dict[str, Obj] = field(default_factory=dict)
    lines: list[str] = field(default_factory=list)
    writes: int = 0
    promise: tuple[int, int] | None = None  # most pods, fewest that serve; None: not judged
    reached: int = 0  # most pods that served, and were counted, since the promise was made
    broken: list[str] = field(default_factory=list)
    _moved: asyncio.Event = field(default_factory=asyncio.Event)

    # What a user does.

    async def create(self, replicas: int, surge: Any, down: Any, canary: str | None) -> None:
        rolling = {"maxSurge": surge, "maxUnavailable": down}
        strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
        obj: Any = deployment(self.name, replicas, "app:v1", strategy=strategy)
        notes = {} if canary is None else {ANNOTATION: canary}
        obj["metadata"] |= {"namespace": self.space, "annotations": notes}
        await self._send("create", DEPLOYMENTS, obj, "")

    async def edit(self, **changes: Any) -> None:
        """Change it in one update as kubectl does: canary, image, or fields of the spec."""
        body: dict[str, Any] = {"metadata": {"annotations": {}}, "spec": {}}
        for name, value in changes.items():
            if name == "canary":
                body["metadata"]["annotations"][ANNOTATION] = value
            elif name == "image":
                containers = deployment(self.name, image=f"app:{value}")["spec"]["template"]
                body["spec"]["template"] = containers
            else:
                body["spec"][name] = value
        if changes.get("paused") is False and self.promise is not None and self._may_lose_one:
            self.promise = self.promise[0], self.promise[1] - 1
        await self._send("patch", DEPLOYMENTS, body, self.name)

    @property
    def _may_lose_one(self) -> bool:
        """CAN-126: kubectl ends the pause of a canary without pods while the lock's maxUnavailable
        is 1, and the user's is 0."""
        running = {version_of(one) for one in self.sets.values() if one["spec"]["replicas"]}
        wanted = self.raw["spec"]["replicas"]
        rolling = self.raw["spec"]["strategy"]["rollingUpdate"]
        none_may_go = limits(self.raw, wanted)[1] == wanted
        empty = version_of(self.raw) not in running
        return self.lock() is not None and empty and none_may_go and rolling["maxUnavailable"] == 1

    async def commit(self, **changes: Any) -> None:
        """Change its template, and more, as gitkruise applies a commit: it waits for its canary."""
        while True:
            live = await self.read()
            changes["paused"] = True
            body: Any = {"annotations": {LOCK: unbegun(live).text}}
            body["resourceVersion"] = live["metadata"]["resourceVersion"]
            if "canary" in changes:
                body["annotations"][ANNOTATION] = changes.pop("canary")
            spec = {k: v for k, v in changes.items() if k != "image"}
            spec |= waiting_strategy(live)
            spec["template"] = deployment(self.name, image=f"app:{changes['image']}")["spec"][
                "template"
            ]
            try:
                await self._send("patch", DEPLOYMENTS, {"metadata": body, "spec": spec}, self.name)
            except Conflict:
                continue
            return

    async def resize(self, version: str, replicas: int) -> None:
        """`kubectl scale rs`."""
        one = next(o for o in self.sets.values() if version_of(o) == version)
        body = {"spec": {"replicas": replicas}}
        await self._send("patch", SETS, body, one["metadata"]["name"])

    async def read(self) -> Obj:
        request = ApiRequest(verb="get", resource=DEPLOYMENTS, namespace=self.space, name=self.name)
        return thaw((await self.transport.send(request)).body)

    async def _send(self, verb: str, ref: ResourceRef, body: Any, name: str) -> None:
        kind = MERGE_PATCH if verb == "patch" else "application/json"
        reply = await self.transport.send(
            ApiRequest(
                verb=verb,
                resource=ref,
                namespace=self.space,
                name=name,
                body=body,
                content_type=kind,
            )
        )
        if ref == DEPLOYMENTS:
            self._take(thaw(reply.body))

    def _take(self, raw: Obj) -> None:
        """Keep the newest version: the reply to an own write may come before older events."""
        if not self.raw or _version(self.raw) <= _version(raw):
            self.raw = raw

    # What is seen.

    @property
    def line(self) -> str:
        sizes: dict[str, int] = {}
        for one in self.sets.values():
            sizes[version_of(one)] = sizes.get(version_of(one), 0) + one["spec"]["replicas"]
        text = ",".join(str(sizes[v]) for v in sorted(sizes))
        held = get(self.raw, "spec", "paused") and PAUSED in (
            get(self.raw, "metadata", "annotations", default={})
        )
        return text + (" paused" if held else "")

    def see(self, event: Any, kind: str) -> None:
        obj = thaw(event.object)
        uid, gone = obj["metadata"]["uid"], event.type == "DELETED"
        if kind == "Deployment":
            self._take(obj)
            self.writes += 1
        else:
            kept = self.sets if kind == "ReplicaSet" else self.pods
            if gone:
                kept.pop(uid, None)
            else:
                kept[uid] = obj
            self.writes += kind == "ReplicaSet"
        self._judge()
        line = self.line
        if self.raw and (not self.lines or self.lines[-1] != line):
            self.lines.append(line)
        self._moved.set()

    @property
    def size(self) -> int:
        return sum(one["spec"]["replicas"] for one in self.sets.values())

    @property
    def serving(self) -> int:
        return sum(map(serves, self.pods.values()))

    @property
    def counted(self) -> int:
        """Pods that serve, as the ReplicaSets report it."""
        return sum(get(one, "status", "readyReplicas", default=0) for one in self.sets.values())

    def any_may_fail(self) -> None:
        """Judge only the sizes until the next promise."""
        assert self.promise is not None
        self.promise = self.promise[0], 0

    def promises(self, *more: int) -> None:
        """Judge what follows by the user's limits, now and at `more` replicas."""
        found = [limits(self.raw, size) for size in (self.raw["spec"]["replicas"], *more)]
        if self.promise is not None and more:
            found.append(self.promise)
        most = max(self.size, *(one[0] for one in found))
        self.promise = most, min(one[1] for one in found)
        self.reached = min(self.serving, self.counted)

    def _judge(self) -> None:
        if self.promise is None:
            return
        most, fewest = self.promise
        serving, size = self.serving, self.size
        self.reached = max(self.reached, min(serving, self.counted))  # CAN-129
        wrong = size > most or serving < min(fewest, self.reached)
        if wrong and not self.broken:
            self.broken.append(f"{size} of {most} pods, {serving} of {fewest} serve: {self.around}")

    @property
    def around(self) -> str:
        """What is known of the pods, and of the Deployment."""
        pods = sorted(
            (
                version_of({"spec": {"template": pod}}),
                serves(pod),
                "deletionTimestamp" in pod["metadata"],
            )
            for pod in self.pods.values()
        )
        sets = {
            version_of(one): (one["spec"].get("minReadySeconds"), one.get("status"))
            for one in self.sets.values()
        }
        return f"{pods} {sets} {self.history}"

    @property
    def held(self) -> bool:
        """Return whether its canary paused it, with as many pods as it is to have."""
        paused = self.line.endswith("paused") and get(self.raw, "spec", "paused")
        return bool(paused) and self.size == self.raw["spec"]["replicas"] == self.serving

    @property
    def done(self) -> bool:
        run = {version_of(s): n for s in self.sets.values() if (n := s["spec"]["replicas"])}
        wanted = self.raw["spec"]["replicas"]
        return run == {version_of(self.raw): wanted} and self.serving == wanted

    async def wait(self, pleased: Callable[[], bool]) -> None:
        """Wait until `pleased` is."""
        try:
            async with asyncio.timeout(HANG_S):
                while not pleased():
                    self._moved.clear()
                    await self._moved.wait()
        except TimeoutError:
            raise AssertionError(self.history) from None

    @property
    def history(self) -> str:
        notes = get(self.raw, "metadata", "annotations", default={})
        marks = {k: v for k, v in notes.items() if "canary" in k}
        spec = {k: v for k, v in self.raw.get("spec", {}).items() if k != "template"}
        return f"{self.name}: {version_of(self.raw)} {self.lines[-12:]}, {marks}, {spec}"

    async def rest(self, quiet_s: float = QUIET_S) -> str:
        """Wait until nothing is written for a while; returns the sizes."""
        async with asyncio.timeout(HANG_S):
            while True:
                self._moved.clear()
                if await self._quiet(quiet_s):
                    return self.line

    async def until(self, line: str) -> None:
        """Wait until the sizes are `line`, and stay so for a moment."""
        try:
            async with asyncio.timeout(HANG_S):
                while True:
                    self._moved.clear()
                    if self.line == line and await self._quiet():
                        return
                    if self.line != line:
                        await self._moved.wait()
        except TimeoutError:
            raise AssertionError(f"waiting for {line}: {self.history}") from None

    async def pass_by(self, line: str) -> None:
        """Wait until the sizes are `line`, or were since the last such call."""
        async with asyncio.timeout(HANG_S):
            while line not in self.lines:
                self._moved.clear()
                await self._moved.wait()

    async def _quiet(self, quiet_s: float = QUIET_S) -> bool:
        """Return whether nothing is written for a moment."""
        try:
            async with asyncio.timeout(quiet_s):
                await self._moved.wait()
        except TimeoutError:
            return True
        return False

    def lock(self) -> Any:
        return lock_of(self.raw)


def waiting_strategy(live: Obj) -> dict[str, Any]:
    """The amounts with which a commit's template waits on a locked Deployment, if they change."""
    lock = lock_of(live)
    found = waiting_amounts(lock, live, live["spec"]["replicas"]) if lock is not None else {}
    rolling = {path[-1]: amount for path, amount in found.items()}
    return {"strategy": {"rollingUpdate": rolling}} if rolling else {}


def _version(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


def serves(pod: Obj) -> bool:
    conditions = get(pod, "status", "conditions", default=())
    ready = any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)
    return ready and "deletionTimestamp" not in pod["metadata"]


def limits(raw: Obj, wanted: int) -> tuple[int, int]:
    """(most pods, fewest available pods) that the user allows at `wanted` replicas."""
    found = bounds(unlocked(raw)["spec"]["strategy"], wanted)
    return wanted + found.surge, max(0, wanted - found.unavailable)


class Field:
    """The Deployments of a test by name, fed by three watches of one namespace."""

    def __init__(self, transport: Transport, space: str) -> None:
        self.transport, self.space = transport, space
        self.found: dict[str, Watched] = {}

    def new(self, name: str) -> Watched:
        made = self.found[name] = Watched(self.transport, name, self.space)
        return made

    async def follow(self, ref: ResourceRef, kind: str) -> None:
        request = ApiRequest(
            verb="watch", resource=ref, namespace=self.space, params={"resourceVersion": "0"}
        )
        while True:
            async for event in self.transport.watch(request):
                if event.type in {"ADDED", "MODIFIED", "DELETED"}:
                    meta = event.object["metadata"]
                    name = meta["name"] if kind == "Deployment" else meta["labels"]["app"]
                    if name in self.found:
                        self.found[name].see(event, kind)


@asynccontextmanager
async def watched(transport: Transport, space: str) -> AsyncIterator[Field]:
    """A namespace of its own, watched while the body runs."""
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": space}}
    spaces = ResourceRef("", "v1", "namespaces")
    await transport.send(ApiRequest(verb="create", resource=spaces, body=body))
    seen = Field(transport, space)
    async with asyncio.TaskGroup() as tasks:
        pairs = ((DEPLOYMENTS, "Deployment"), (SETS, "ReplicaSet"), (PODS, "Pod"))
        running = [tasks.create_task(seen.follow(ref, kind)) for ref, kind in pairs]
        yield seen
        for task in running:
            task.cancel()
