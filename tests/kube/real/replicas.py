"""Replicas of `gitkruise run` that end, stand still or lose the cluster, and what each one wrote.

Each replica is a process with an account, a state directory and a way to the API server of its own.
The API server's audit log says who wrote what, and when.
"""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

from gitkruise.gitops.cluster.engine import WORKLOADS_LEASE
from gitkruise.kube.system.lease_terms import SYNC_LEASE
from tests.kube.real.apiserver import TOKENS, Apiserver, apiserver
from tests.kube.real.shop import HANG_S, Shop

REPLICAS = 40  # accounts; each process has a new one
_ACCOUNT = "replica-{}"
_POLICY = """
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - {level: None, verbs: [get, list, watch]}
  - {level: Metadata, userGroups: [replicas]}
"""
# Resources that only the process with the lease of the workloads writes; others belong to the sync.
_DRIVEN = {("pods", ""), ("pods", "status"), ("controllerrevisions", ""), ("clonesets", "status")}
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One write that the API server carried out: when it came, when it was answered, by whom."""

    asked: datetime
    done: datetime
    account: str
    resource: str
    part: str  # "" or the subresource
    name: str
    verb: str

    @property
    def lease(self) -> str:
        """The lease under which it must be written."""
        if self.resource == "leases":
            return self.name
        return WORKLOADS_LEASE if (self.resource, self.part) in _DRIVEN else SYNC_LEASE


@contextmanager
def audited(folder: Path) -> Iterator[Apiserver]:
    """An API server that notes the writes of replicas. Skips the test when a program is missing."""
    policy = folder / "audit-policy.yaml"
    policy.write_text(_POLICY)
    accounts = (_ACCOUNT.format(number) for number in range(REPLICAS))
    rows = (f'{name}-token,{name},uid-{name},"system:masters,replicas"\n' for name in accounts)
    flags = (f"--audit-policy-file={policy}", f"--audit-log-path={folder / 'audit.log'}")
    with apiserver(folder, tokens=TOKENS + "".join(rows), flags=flags) as server:
        yield server


def replica_config(server: Apiserver, number: int) -> Path:
    """The kubeconfig of a replica with an account of its own."""
    account = _ACCOUNT.format(number)
    return server.kubeconfig(f"{account}-token", name=account)


def written(server: Apiserver) -> list[Written]:
    """The writes of all replicas so far, in the order in which they came."""
    lines = (server.folder / "audit.log").read_text().splitlines()
    events = [json.loads(line) for line in lines]
    return sorted(
        (
            Written(
                asked=datetime.fromisoformat(event["requestReceivedTimestamp"]),
                done=datetime.fromisoformat(event["stageTimestamp"]),
                account=event["user"]["username"],
                resource=event["objectRef"]["resource"],
                part=event["objectRef"].get("subresource", ""),
                name=event["objectRef"].get("name", ""),
                verb=event["verb"],
            )
            for event in events
            if event.get("responseStatus", {}).get("code", 500) < 300
            and "dryRun" not in event["requestURI"]
        ),
        key=lambda one: one.asked,
    )


def trespasses(writes: list[Written]) -> list[tuple[Written, str]]:
    """Writes of a process after another one took over their lease, each with that one's account."""
    found, holders = list[tuple[Written, str]](), dict[str, Written]()
    for one in writes:
        holder = holders.get(one.lease)
        if one.resource == "leases":
            holders[one.lease] = one
        elif one.resource == "events":
            continue  # notes of either, which change nothing
        elif holder and holder.account != one.account and one.asked > holder.done:
            found.append((one, holder.account))
    return found


class Wire:
    """A way to the API server that can be cut: bytes then go nowhere, and no connection ends."""

    def __init__(self, port: int) -> None:
        self._target, self.port = port, 0
        self._open = asyncio.Event()
        self._open.set()
        self._writers: set[asyncio.StreamWriter] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        server = await asyncio.start_server(self._joined, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield
        finally:
            server.close()
            self._drop()

    def cut(self) -> None:
        self._open.clear()

    def mend(self) -> None:
        """New connections work; the old ones, and the bytes in them, are gone."""
        self._drop()
        self._open.set()

    def _drop(self) -> None:
        for writer in self._writers:
            writer.transport.abort()

    async def _joined(self, near: asyncio.StreamReader, back: asyncio.StreamWriter) -> None:
        self._writers.add(back)
        await self._open.wait()
        with suppress(OSError):
            far, forth = await asyncio.open_connection("127.0.0.1", self._target)
            self._writers.add(forth)
            async with asyncio.TaskGroup() as ways:
                ways.create_task(self._way(near, forth))
                ways.create_task(self._way(far, back))
            self._writers.discard(forth)
        back.transport.abort()
        self._writers.discard(back)

    async def _way(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(2**16):
                await self._open.wait()
                target.write(data)
                await target.drain()
        target.transport.abort()


@dataclass
class Replica:
    """One process and its way to the API server."""

    account: str
    wire: Wire
    process: subprocess.Popen[bytes]

    def send(self, number: signal.Signals) -> None:
        self.process.send_signal(number)


@dataclass
class Replicas:
    """The processes that follow a shop on an audited API server."""

    server: Apiserver
    shop: Shop
    running: dict[str, Replica] = field(default_factory=dict)
    _ways: list[asyncio.Task[None]] = field(default_factory=list)

    async def start(self, group: asyncio.TaskGroup, *flags: str) -> Replica:
        """Start one more replica with `flags`; `group` keeps its way to the server open."""
        account = _ACCOUNT.format(len(self._ways))
        wire, ready = Wire(self.server.port), asyncio.Event()

        async def keep() -> None:
            async with wire.running():
                ready.set()
                await asyncio.get_running_loop().create_future()

        self._ways.append(group.create_task(keep()))
        await ready.wait()
        config = replica_config(self.server, len(self._ways) - 1)
        config.write_text(config.read_text().replace(f":{self.server.port}", f":{wire.port}"))
        home = self.server.folder / account
        home.mkdir()
        words = ("run", "--kubeconfig", str(config), "--cluster", "real",
                 "--config", str(self.shop.clone / "gitkruise.yaml"), *flags)  # fmt: skip
        self.running[account] = Replica(account, wire, _run(home, *words))
        return self.running[account]

    def rest(self) -> None:
        """Close the ways to the server."""
        for task in self._ways:
            task.cancel()

    def close(self) -> None:
        """End all processes."""
        for replica in self.running.values():
            replica.process.kill()
            replica.process.wait()

    def log(self, account: str) -> str:
        return (self.server.folder / account / "log").read_text()

    async def holder(self, lease: str, *, but: str = "") -> Written:
        """The first write by which the present holder of `lease`, not `but`, took it."""
        async with asyncio.timeout(HANG_S):
            while True:
                writes = [w for w in written(self.server) if w.resource == "leases"]
                writes = [w for w in writes if w.name == lease]
                if writes and writes[-1].account != but:
                    last = writes[-1].account
                    others = [n for n, w in enumerate(writes) if w.account != last]
                    return writes[others[-1] + 1 if others else 0]
                await asyncio.sleep(_LOOK_S)


def _run(home: Path, *words: str) -> subprocess.Popen[bytes]:
    with (home / "log").open("wb") as log:
        return subprocess.Popen(
            (sys.executable, "-m", "gitkruise", *words),
            stdout=log, stderr=log, cwd=Path(__file__).parents[3],
            env={"PATH": "/usr/bin:/bin", "GITKRUISE_STATE": str(home), "HOME": str(home)},
        )  # fmt: skip
