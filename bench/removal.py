"""Units with four objects each, removed together: time, CPU time and reads, on both API servers."""

from __future__ import annotations

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from bench import monorepo
from bench.timing import Row
from gitkruise.app import RunOptions, controller
from gitkruise.gitops.resources.declared import ResourceRules
from gitkruise.kube.auth.connection import Connection, from_kubeconfig
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.client.wrappers import Counted
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import Config
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import OWN_GROUP
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, apply_request
from tests.e2e.cluster import sandbox
from tests.kube.real.apiserver import apiserver, find
from tests.kube.real.controllers import controller_manager
from tests.kube.real.installed import command

COUNTS: Final = (10, 100)
LIMIT_S: Final = 1.5  # for 100 units
PATIENCE_S: Final = 300.0
PAUSE_S: Final = 0.05  # between two looks
SETTLE_S: Final = 20.0  # until the controllers of the cluster have written
CONTROLLERS: Final = ("deployment", "replicaset", "garbage-collector")
UNITS: Final = ResourceRef(OWN_GROUP, "v1alpha1", "units")
_SOURCES, _SINKS = (ResourceRef(OWN_GROUP, "v1alpha1", name) for name in ("gitsources", "sinks"))
_OURS: Final = tuple(
    ResourceRef(group, "v1", plural)
    for group, plural in (
        ("apps", "deployments"), ("", "serviceaccounts"), ("", "services"),
        ("networking.k8s.io", "ingresses"),
    )
)  # fmt: skip


def rows() -> Iterator[Row]:
    """Seconds from the first deletion of a Unit until no Unit exists; by then the deletion of every
    object was accepted."""
    for count in COUNTS:
        for sink in (False, True):
            with _embedded() as (connection, folder):
                yield from _row("embedded cluster", connection, folder, count, sink=sink)
        if find("kube-apiserver") and find("etcd"):
            with _real() as (connection, folder):
                yield from _row("kube-apiserver", connection, folder, count, sink=False)


@contextmanager
def _embedded() -> Iterator[tuple[Connection, Path]]:
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        with sandbox(folder / "state") as cluster:
            yield from_kubeconfig([cluster.kubeconfig]), folder


@contextmanager
def _real() -> Iterator[tuple[Connection, Path]]:
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        folder = Path(name)
        with apiserver(folder) as server:
            words = ("install", "--kubeconfig", str(server.kubeconfig()))
            done = command(*words, root=folder)
            assert done.returncode == 0, done.stderr
            with controller_manager(server, CONTROLLERS):
                yield server.connection(), folder


def _row(
    where: str, connection: Connection, folder: Path, count: int, *, sink: bool
) -> Iterator[Row]:
    name = f"{count} units{' with a Sink' if sink else ''} removed, {where}"
    took_s, cpu_s, asked = asyncio.run(_removed(connection, folder, count, sink=sink))
    yield Row(name=f"{name}: seconds", value=took_s, unit="s", limit=LIMIT_S)
    yield Row(name=f"{name}: CPU of run", value=cpu_s, unit="s CPU")
    yield Row(name=f"{name}: lists", value=asked["list"], unit="")
    yield Row(name=f"{name}: gets", value=asked["get"], unit="")
    yield Row(name=f"{name}: writes", value=asked.total() - asked["list"] - asked["get"], unit="")


async def _removed(
    connection: Connection, folder: Path, count: int, *, sink: bool
) -> tuple[float, float, Counter[str]]:
    """Run a controller in this process, create the units, delete them; seconds, CPU, requests."""
    names = [f"u{number:04}" for number in range(count)]
    repo = monorepo.create(folder, names)
    repo.commit({f"units/{n}/app.yaml": monorepo.four_objects(n) for n in names}, "first release")
    asked: Counter[str] = Counter()
    done: set[str] = set()

    def record_done(record: UnitRecord) -> None:
        if record.state is State.DONE:
            done.add(record.unit)

    options = RunOptions(
        config=Config(), cluster="bench", state_dir=folder / "controller", identity="bench",
        listeners=(record_done,), custom=ResourceRules(local_sources=True),
    )  # fmt: skip
    clock = SystemClock()
    async with HttpTransport(connection, clock) as wire, HttpTransport(connection, clock) as hands:
        await _create(hands, repo.bare, names, sink=sink)
        transport = Counted(wire, lambda request, _: asked.update([request.verb]))
        async with controller(options, transport, clock):
            await _until(lambda: _are(done, count))
            await clock.sleep(SETTLE_S)  # the records are written
            asked.clear()
            began, used = time.monotonic(), os.times()
            async with asyncio.TaskGroup() as tasks:
                for name in names:
                    tasks.create_task(_delete(hands, name))
            await _until(lambda: _gone(hands))
            took, spent = time.monotonic() - began, os.times()
            left = [obj for ref in _OURS for obj in await listed(hands, ref, namespace="fleet")]
    there = [obj for obj in left if not obj["metadata"].get("deletionTimestamp")]
    assert not [obj for obj in there if obj["metadata"]["name"] != "default"], there
    return took, spent.user + spent.system - used.user - used.system, asked


async def _create(hands: Transport, url: Path, names: list[str], *, sink: bool) -> None:
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "fleet"}}
    await _apply(hands, ResourceRef("", "v1", "namespaces"), space, "")
    ref = {"sourceRef": {"name": "units"}}
    await _own(hands, _SOURCES, "GitSource", "units", {"url": str(url), "ref": {"branch": "main"}})
    if sink:
        await _own(hands, _SINKS, "Sink", "outcome", {"git": ref})
    reference = {"sinkRef": {"name": "outcome"}} if sink else {}
    for name in names:
        await _own(hands, UNITS, "Unit", name, {**ref, "path": f"units/{name}", **reference})


async def _own(hands: Transport, ref: ResourceRef, kind: str, name: str, spec: Any) -> None:
    meta = {"name": name, "namespace": "fleet"}
    body = {"apiVersion": f"{OWN_GROUP}/v1alpha1", "kind": kind, "metadata": meta, "spec": spec}
    await _apply(hands, ref, body, "fleet")


async def _apply(hands: Transport, ref: ResourceRef, body: Any, namespace: str) -> None:
    await hands.send(apply_request(ref, body, "bench", namespace=namespace, force=True))


async def _delete(hands: Transport, name: str) -> None:
    await hands.send(ApiRequest(verb="delete", resource=UNITS, namespace="fleet", name=name))


async def _are(done: set[str], count: int) -> bool:
    return len(done) == count


async def _gone(hands: Transport) -> bool:
    return not await listed(hands, UNITS)


async def _until(reached: Callable[[], Awaitable[bool]]) -> None:
    """Ask again and again, on a machine that others use, too."""
    clock = SystemClock()
    async with asyncio.timeout(PATIENCE_S):
        while not await reached():
            await clock.sleep(PAUSE_S)
