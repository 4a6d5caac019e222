"""Writes of the controllers while a CloneSet is rolled on a kube-apiserver: by kind, and conflicts.

The kubelet of the tests runs the pods, and an agent writes into the status of one pod after the
other all the time. The pods have OpenKruise's readiness gates, as with its webhooks.
"""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from datetime import datetime
from pathlib import Path
from typing import Any, Final, TypeAlias

from bench.timing import Row
from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.errors import NotFound
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.wrappers import Counted
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads import labels
from gitkruise.planner.workloads import CLONESET
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import JSON_PATCH, STRATEGIC_PATCH, ApiRequest
from gitkruise.wire.primitives.times import format_time
from tests.kube.real.apiserver import Apiserver, apiserver, find, talking
from tests.kube.real.shop import CLONESETS, PODS, install_crds, listed, pods_run
from tests.worlds import START, cloneset, create, empty_world

REPLICAS, MANY = 100, 300
POLICIES: Final = {"in place": ("InPlaceIfPossible", 3.0), "recreated": ("ReCreate", 3.5)}
CONFLICTS: Final = frozenset({409, 422})  # 422: a test operation of a JSON patch failed
CONFLICTS_PERCENT: Final = 1.0
PATIENCE_S: Final = 600.0
PAUSE_S: Final = 0.1  # between two looks
REST_S: Final = 2.0
REPORT_S: Final = 0.01  # between two heartbeats of the agent
SPACE: Final = "default"
READS: Final = frozenset({"get", "list", "watch"})
EVENTS: Final = "events"
Answers: TypeAlias = Counter[tuple[str, int]]  # by (kind of request, status code)


def rows() -> Iterator[Row]:
    """Writes of one pod, conflicts among the requests, and how often each kind was written."""
    return _of(REPLICAS)


def many() -> Iterator[Row]:
    return _of(MANY)


def _of(replicas: int) -> Iterator[Row]:
    if not (find("kube-apiserver") and find("etcd")):
        return
    for how, (policy, goal) in POLICIES.items():
        with (
            tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as folder,
            apiserver(Path(folder)) as server,
        ):
            asked, took_s = asyncio.run(_rolled(server, policy, replicas))
        name = f"{replicas} pods {how}"
        yield Row(name=f"{name}: seconds", value=took_s, unit="s")
        yield from _rows(name, goal, asked, replicas)


def _rows(name: str, goal: float, asked: Answers, replicas: int) -> Iterator[Row]:
    """The Events about a rollout are bounded by the object, not by its pods: they have their own
    rows."""
    writes = sum(n for (what, _), n in asked.items() if not what.endswith(EVENTS))
    refused = sum(n for (_, code), n in asked.items() if code in CONFLICTS)
    yield Row(name=f"{name}: writes of one pod", value=writes / replicas, unit="", limit=goal)
    share = 100 * refused / writes
    yield Row(name=f"{name}: conflicts", value=share, unit="%", limit=CONFLICTS_PERCENT)
    for (what, code), count in sorted(asked.items()):
        answer = "" if code < 300 else f" answered {code}"
        yield Row(name=f"{name}: {what}{answer}", value=count / replicas, unit="a pod")


async def _rolled(server: Apiserver, policy: str, replicas: int) -> tuple[Answers, float]:
    """Answers to writes, and seconds until all pods are updated."""
    asked: Answers = Counter()

    def answered(request: ApiRequest, code: int) -> None:
        if request.verb not in READS:
            place = "/".join(filter(None, (request.resource.plural, request.subresource)))
            asked[f"{request.verb} {place}", code] += 1

    async with AsyncExitStack() as stack:
        hands = await stack.enter_async_context(talking(server))
        await install_crds(hands)
        await stack.enter_async_context(pods_run(hands))
        wire = await stack.enter_async_context(talking(server))
        await stack.enter_async_context(_controlled(Counted(wire, answered)))
        body = _cloneset(policy, replicas)
        await hands.send(ApiRequest(verb="create", resource=CLONESETS, namespace=SPACE, body=body))
        await _until_rolled(hands, replicas)
        asked.clear()
        clock = SystemClock()
        began = clock.now()
        async with asyncio.TaskGroup() as group:
            agent = group.create_task(_reports(hands))
            await _update(hands)
            ended = await _until_rolled(hands, replicas)
            agent.cancel()
        return asked, (ended - began).total_seconds()


async def _reports(hands: HttpTransport) -> None:
    """Until cancelled: a heartbeat of each pod in turn."""
    clock = SystemClock()
    while True:
        for pod in await listed(hands, PODS, SPACE):
            if not get(pod, "spec", "nodeName"):
                continue
            now = format_time(clock.now())
            condition = {"type": "PodScheduled", "status": "True", "lastProbeTime": now}
            with suppress(NotFound):
                await hands.send(
                    ApiRequest(
                        verb="patch", resource=PODS, namespace=SPACE, name=pod["metadata"]["name"],
                        subresource="status", body={"status": {"conditions": [condition]}},
                        content_type=STRATEGIC_PATCH,
                    )
                )  # fmt: skip
            await clock.sleep(REPORT_S)


@asynccontextmanager
async def _controlled(transport: Counted) -> AsyncIterator[None]:
    running = Controllers([CLONESET], transport, load_catalog(), SystemClock(), ControllerOptions())
    async with asyncio.TaskGroup() as group:
        task = group.create_task(running.run())
        yield
        task.cancel()


def _cloneset(policy: str, replicas: int) -> Obj:
    """As OpenKruise's webhook completes it."""
    web = cloneset(replicas=replicas, podUpdatePolicy=policy)
    web["metadata"]["namespace"] = SPACE
    web["spec"]["template"]["spec"]["readinessGates"] = [{"conditionType": labels.KRUISE_READY}]
    world = empty_world()
    admitted = world.handle(create(world, web), START).body
    return {**web, "spec": admitted["spec"]}


async def _update(hands: HttpTransport) -> None:
    path = "/spec/template/spec/containers/0/image"
    await hands.send(
        ApiRequest(
            verb="patch", resource=CLONESETS, namespace=SPACE, name="web",
            body=[{"op": "replace", "path": path, "value": "app:v2"}], content_type=JSON_PATCH,
        )
    )  # fmt: skip


async def _until_rolled(hands: HttpTransport, replicas: int) -> datetime:
    """Wait until the status reports it, then for what is still written; when it was reported."""
    read = ApiRequest(verb="get", resource=CLONESETS, namespace=SPACE, name="web")
    clock = SystemClock()
    async with asyncio.timeout(PATIENCE_S):
        while not _is_rolled((await hands.send(read)).body, replicas):
            await clock.sleep(PAUSE_S)
    ended = clock.now()
    await clock.sleep(REST_S)
    return ended


def _is_rolled(web: Any, replicas: int) -> bool:
    status = get(web, "status", default={})
    fresh = status.get("observedGeneration") == web["metadata"]["generation"]
    counts = [status.get(name) for name in ("replicas", "updatedAvailableReplicas")]
    return fresh and counts == [replicas, replicas]
