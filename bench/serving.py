"""Durable writes and lists of the embedded cluster next to kube-apiserver's, memory and restart.

The machine's mood hits both alike: they take turns in slices. Rates are of the clock, so on a busy
machine only their ratio says something; CPU is of the server's processes.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any, Final

from bench.doors import BARE, Server, both, own
from bench.lines import Door, Lines, Load, lines
from bench.timing import Row
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH
from tests.e2e.cluster import Cluster, sandbox

CLIENTS: Final = 64
SLICE: Final = 500  # requests
SLICES: Final = 10
FEW: Final = 125  # of those that go again after each slice
LISTS: Final = 7
MANY: Final = 10_000
PODS: Final = "/api/v1/namespaces/default/pods"
CORES: Final = 2
ALONE: Final = "create of a pod unlike all others"
TARGET_MIB, TARGET_LOAD_S, TARGET_LIST = 350, 4, 2
_REF: Final = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "controller": True}
_POD: Final[dict[str, Any]] = {
    "apiVersion": "v1", "kind": "Pod",
    "spec": {
        "containers": [{
            "name": "app", "image": "registry.example.com/shop/web:1",
            "ports": [{"name": "http", "containerPort": 8080}],
            "env": [
                {"name": "LEVEL", "value": "info"},
                {"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
            ],
            "resources": {
                "requests": {"cpu": "250m", "memory": "256Mi"}, "limits": {"memory": "512Mi"},
            },
            "readinessProbe": {"httpGet": {"path": "/ready", "port": "http"}, "periodSeconds": 5},
            "livenessProbe": {"httpGet": {"path": "/live", "port": "http"}},
            "volumeMounts": [{"name": "cache", "mountPath": "/var/cache"}],
        }],
        "volumes": [{"name": "cache", "emptyDir": {}}],
    },
}  # fmt: skip


@dataclass(slots=True)
class Tally:
    """Cost of one kind of work on one server, by slice."""

    loads: list[Load] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)

    @property
    def rate(self) -> float:
        return median(load.rate for load in self.loads)

    @property
    def cpu_us(self) -> float:
        """Of the server, for one request."""
        return median(s / len(load.took_s) for s, load in zip(self.cpu_s, self.loads, strict=True))

    @property
    def client(self) -> float:
        """Per cent of the machine's CPU that the client took."""
        return 100 * median(load.cpu_s / load.seconds for load in self.loads) / CORES

    @property
    def p99_s(self) -> float:
        return median(load.within(0.99) for load in self.loads)


def rows() -> Iterator[Row]:
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name, ExitStack() as stack:
        servers = stack.enter_context(both(Path(name)))
        with ExitStack() as connections:
            opened = [connections.enter_context(lines(s.door, CLIENTS)) for s in servers]
            yield from _writes(servers, opened)
        yield Row(
            name=f"memory with {SLICE * SLICES:,} pods", value=servers[0].rss_mib, unit="MiB",
            limit=TARGET_MIB,
        )  # fmt: skip
        yield from _lists(servers)
    with tempfile.TemporaryDirectory(prefix="gitkruise-bench-") as name:
        yield from _restart(Path(name))


def pod(number: int, *, alone: bool = False) -> dict[str, Any]:
    """A pod of one of 20 workloads; one that is alone shares its spec with no other."""
    workload = number % 20
    uid = f"{workload:08d}-0000-4000-8000-000000000000"
    meta: dict[str, Any] = {"name": f"web-{number:06d}", "labels": {"app": f"web-{workload}"}}
    if alone:
        spec = {**_POD["spec"], "hostname": f"h{number}"}
        return {**_POD, "metadata": {**meta, "name": f"one-{number:06d}"}, "spec": spec}
    ref = {**_REF, "name": f"web-{workload}", "uid": uid}
    return {**_POD, "metadata": {**meta, "ownerReferences": [ref]}}


def creation(door: Door, number: int, *, alone: bool = False) -> bytes:
    return door.request("POST", PODS, json.dumps(pod(number, alone=alone)).encode())


def new_image(door: Door, number: int) -> bytes:
    """The patch an in-place update sends."""
    container = {"name": "app", "image": f"registry.example.com/shop/web:{number}-2"}
    notes = {"example.com/release": f"r{number}"}
    body = {"metadata": {"annotations": notes}, "spec": {"containers": [container]}}
    path = f"{PODS}/web-{number:06d}"
    return door.request("PATCH", path, json.dumps(body).encode(), content=STRATEGIC_PATCH)


def _writes(servers: list[Server], opened: list[Lines]) -> Iterator[Row]:
    works = {
        f"create of a pod, {CLIENTS} clients": (creation, SLICE),
        f"patch of a pod, {CLIENTS} clients": (new_image, SLICE),
        ALONE: (_alone, FEW),
    }
    tallies = {what: [Tally() for _ in servers] for what in works}
    for turn in range(SLICES):
        numbers = range(turn * SLICE, (turn + 1) * SLICE)
        for what, (made, count) in works.items():
            for server, open_lines, tally in zip(servers, opened, tallies[what], strict=True):
                before = server.cpu_s
                tally.loads.append(open_lines.run(made(server.door, n) for n in numbers[:count]))
                tally.cpu_s.append(server.cpu_s - before)
        for server, open_lines in zip(servers, opened, strict=True):
            open_lines.run(
                server.door.request("DELETE", f"{PODS}/one-{n:06d}") for n in numbers[:FEW]
            )
    for what, of_servers in tallies.items():
        yield from compared_rows(what, servers, of_servers, goal=None if what == ALONE else 1.0)


def _alone(door: Door, number: int) -> bytes:
    return creation(door, number, alone=True)


def compared_rows(
    what: str, servers: list[Server], tallies: list[Tally], *, goal: float | None
) -> Iterator[Row]:
    for server, tally in zip(servers, tallies, strict=True):
        yield Row(name=f"{what}: {server.name}", value=tally.rate, unit="/s")
        yield Row(name="  CPU of the server, each", value=1e6 * tally.cpu_us, unit="us")
        yield Row(name="  answered within, 99 %", value=1e3 * tally.p99_s, unit="ms")
        yield Row(name="  the client's share of the machine", value=tally.client, unit="%")
    if len(tallies) > 1:
        ratio = tallies[0].rate / tallies[1].rate
        yield Row(name="  ratio", value=ratio, unit="times", limit=goal, least=True)


def _lists(servers: list[Server]) -> Iterator[Row]:
    took: list[list[float]] = [[] for _ in servers]
    for _ in range(LISTS):
        for server, times in zip(servers, took, strict=True):
            request = server.door.request("GET", PODS)
            with lines(server.door, 1) as opened:
                opened.one(request)
                times.append(opened.run(iter([request])).seconds)
    for server, times in zip(servers, took, strict=True):
        value = 1000 * median(times)
        yield Row(name=f"list of {SLICE * SLICES:,} pods: {server.name}", value=value, unit="ms")
    if len(took) > 1:
        ratio = median(took[0]) / median(took[1])
        yield Row(name="  ratio", value=ratio, unit="times", limit=TARGET_LIST)


def _restart(folder: Path) -> Iterator[Row]:
    """CPU of a start with MANY pods on disk, from the command to the first answer."""
    with sandbox(folder, *BARE) as cluster:
        empty_s = _start_s(cluster)
        server = own(cluster)
        with lines(server.door, CLIENTS) as opened:
            opened.run(creation(server.door, number) for number in range(MANY))
        full_s = _start_s(cluster)
        value = own(cluster).rss_mib
    yield Row(name="start of an empty cluster", value=empty_s, unit="s CPU")
    name = f"start with {MANY:,} pods on disk"
    yield Row(name=name, value=full_s, unit="s CPU", limit=TARGET_LOAD_S)
    yield Row(name=f"memory with {MANY:,} pods just loaded", value=value, unit="MiB")


def _start_s(cluster: Cluster) -> float:
    cluster.down()
    cluster.up(*BARE)
    return own(cluster).cpu_s
