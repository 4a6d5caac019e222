"""A real kube-apiserver with its etcd on loopback: found, started, killed and started again."""

from __future__ import annotations

import http.client
import os
import shutil
import signal
import socket
import ssl
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from itertools import cycle, islice
from pathlib import Path

from gitkruise.kube.auth.connection import Connection
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from tests.conftest import need
from tests.kube.certificates import self_signed
from tests.kube.server import connection_to

ADMIN, STRANGER = "admin-token", "stranger-token"
TOKENS = f"""{ADMIN},admin,uid-admin,system:masters
{STRANGER},stranger,uid-stranger
"""
STARTS_WITHIN = 600  # looks at the port, a tenth of a second apart


def find(name: str) -> str:
    """Return the path of the program `name`, found as other Kubernetes suites do; or ""."""
    variables = os.environ  # noqa: TID251  the test run's own switches
    chosen = variables.get("TEST_ASSET_" + name.upper().replace("-", "_"), "")
    assets = variables.get("KUBEBUILDER_ASSETS", "")
    places = [chosen, str(Path(assets) / name) if assets else "", shutil.which(name) or ""]
    return next((place for place in places if place and Path(place).exists()), "")


def need_both() -> tuple[str, str]:
    """(etcd, kube-apiserver); skips the test when one is missing."""
    etcd, server = find("etcd"), find("kube-apiserver")
    need("kube", present=bool(etcd), how="apt-get install etcd-server")
    how = "make kube-assets, then KUBEBUILDER_ASSETS=$PWD/tests/kube/real/bin"
    need("kube", present=bool(server), how=how)
    return etcd, server


# Below the ports that the kernel gives to outgoing connections, of which any may take a port that
# was free a moment ago. Each process begins elsewhere and takes none twice.
_PORTS = islice(cycle(range(20_000, 32_000)), os.getpid() * 41 % 12_000, None)


def free_port() -> int:
    """Return a port of loopback that nobody listens on."""
    while True:
        with socket.socket() as probe, suppress(OSError):
            port = next(_PORTS)
            probe.bind(("127.0.0.1", port))
            return port


@dataclass
class Apiserver:
    """One API server over one etcd, all state below `folder`. RBAC is on.

    `durable`: etcd answers once a write is on disk, as it does for everybody but tests.
    `unplugged`: admission plugins that are off, for they count on controllers.
    `tokens`: rows of the token file; `flags`: further ones of kube-apiserver.
    """

    folder: Path
    programs: tuple[str, str]
    port: int = field(default_factory=free_port)
    ca_pem: str = ""
    durable: bool = False
    unplugged: tuple[str, ...] = ("ServiceAccount",)
    tokens: str = TOKENS
    flags: tuple[str, ...] = ()
    _running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    @property
    def url(self) -> str:
        return f"https://127.0.0.1:{self.port}"

    def connection(self, token: str = ADMIN) -> Connection:
        return connection_to(self.url, token=token, ca_pem=self.ca_pem)

    def kubeconfig(self, token: str = ADMIN, *, ca_pem: str = "", name: str = "real") -> Path:
        """A kubeconfig file whose only context is `name`."""
        authority = self.folder / f"ca-{name}.crt"
        authority.write_text(ca_pem or self.ca_pem)
        path = self.folder / f"kubeconfig-{name}"
        path.write_text(
            f"apiVersion: v1\nkind: Config\ncurrent-context: {name}\n"
            f"clusters: [{{name: c, cluster: {{server: '{self.url}',"
            f" certificate-authority: '{authority}'}}}}]\n"
            f"contexts: [{{name: {name}, context: {{cluster: c, user: u}}}}]\n"
            f"users: [{{name: u, user: {{token: '{token}'}}}}]\n"
        )
        return path

    def start(self) -> None:
        """etcd, then the server; comes back when it answers."""
        peers = free_port()
        self.etcd = f"http://127.0.0.1:{free_port()}"
        self._spawn(
            "etcd", self.programs[0],
            f"--data-dir={self.folder / 'etcd'}", *(() if self.durable else ("--unsafe-no-fsync",)),
            f"--listen-client-urls={self.etcd}", f"--advertise-client-urls={self.etcd}",
            f"--listen-peer-urls=http://127.0.0.1:{peers}",
        )  # fmt: skip
        pair = self_signed()
        self.ca_pem = pair.cert_pem
        for name, text in (("tls.crt", pair.cert_pem), ("tls.key", pair.key_pem)):
            (self.folder / name).write_text(text)
        (self.folder / "tokens.csv").write_text(self.tokens)
        self.start_server()

    def start_server(self) -> None:
        cert, key = self.folder / "tls.crt", self.folder / "tls.key"
        self._spawn(
            "kube-apiserver", self.programs[1],
            f"--etcd-servers={self.etcd}", "--bind-address=127.0.0.1",
            f"--secure-port={self.port}", "--endpoint-reconciler-type=none",
            "--service-cluster-ip-range=10.96.0.0/16", "--authorization-mode=RBAC",
            f"--tls-cert-file={cert}", f"--tls-private-key-file={key}",
            f"--service-account-key-file={cert}", f"--service-account-signing-key-file={key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--token-auth-file={self.folder / 'tokens.csv'}",
            f"--disable-admission-plugins={','.join(self.unplugged)}", "--profiling=false",
            *self.flags,
        )  # fmt: skip
        self._wait()

    @property
    def pids(self) -> list[int]:
        """The processes of the cluster."""
        return [process.pid for process in self._running.values()]

    def kill_server(self) -> None:
        """As a crash or a lost machine does it: no farewell."""
        process = self._running.pop("kube-apiserver")
        process.send_signal(signal.SIGKILL)
        process.wait()

    def stop(self) -> None:
        for process in reversed(list(self._running.values())):
            process.kill()
            process.wait()
        self._running.clear()

    def _spawn(self, name: str, *command: str) -> None:
        with (self.folder / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(command, stdout=log, stderr=log)

    def _wait(self) -> None:
        """Until /readyz says so."""
        context = ssl.create_default_context(cadata=self.ca_pem)
        for _ in range(STARTS_WITHIN):
            try:
                talk = http.client.HTTPSConnection("127.0.0.1", self.port, context=context)
                try:
                    talk.request("GET", "/readyz", headers={"Authorization": f"Bearer {ADMIN}"})
                    if talk.getresponse().status == 200:
                        return
                finally:
                    talk.close()
            except OSError:
                pass
            for name, process in self._running.items():
                log = self.folder / f"{name}.log"
                assert process.poll() is None, f"{name} ended: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        raise AssertionError("the API server does not become ready")


@contextmanager
def apiserver(
    folder: Path, *, tokens: str = TOKENS, flags: tuple[str, ...] = ()
) -> Iterator[Apiserver]:
    """A fresh cluster. Skips the test when a program is missing."""
    server = Apiserver(folder, need_both(), tokens=tokens, flags=flags)
    try:
        server.start()
        yield server
    finally:
        server.stop()


@asynccontextmanager
async def talking(server: Apiserver, token: str = ADMIN) -> AsyncIterator[HttpTransport]:
    """A transport to the server, closed whatever happens."""
    transport = HttpTransport(server.connection(token), SystemClock())
    try:
        yield transport
    finally:
        await transport.close()
