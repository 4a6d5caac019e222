"""A real cluster on loopback: control plane, registry, and one to three nodes."""

from __future__ import annotations

import json
import ssl
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from release.oci import Layer
from tests.kube.real.apiserver import ADMIN, TOKENS, Apiserver, free_port, need_both
from tests.node.images import Registry, image, layer, serving
from tests.node.leftovers import PREFIX, claim, sweep
from tests.node.machine import program, settings_kept
from tests.node.processes import Processes
from tests.node.worker import Worker, worker

NAMES = ("127.0.0.1", "127.0.0.2", "127.0.0.3")  # nodes that the API server lets join
GONE_WITHIN = 300  # looks at the pods, a tenth of a second apart


@dataclass
class Cluster:
    """Everything a test talks to."""

    root: Path
    server: Apiserver
    registry: Registry
    processes: Processes
    layer: Layer
    workers: list[Worker] = field(default_factory=list)

    def image(self, reference: str, *, version: str = "") -> str:
        """Offer an image in the registry; returns the name that pods use.

        `version`: what sets its digest apart; its tag unless said.
        """
        return self.registry.add(reference, image(self.layer, version or reference))

    def ask(self, path: str, method: str = "GET", body: object = None) -> Any:
        """Send one request to the API server as the administrator."""
        context = ssl.create_default_context(cadata=self.server.ca_pem)
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(
            self.server.url + path,
            None if body is None else json.dumps(body).encode(),
            {"Authorization": f"Bearer {ADMIN}", "Content-Type": kind},
            method=method,
        )
        with urllib.request.urlopen(request, context=context, timeout=30) as reply:
            return json.load(reply)

    def nodes_ready(self) -> bool:
        """Return whether every node is Ready and takes pods."""
        nodes = self.ask("/api/v1/nodes")["items"]
        good = [
            node
            for node in nodes
            if not node["spec"].get("taints")
            and any(
                (c["type"], c["status"]) == ("Ready", "True") for c in node["status"]["conditions"]
            )
        ]
        return len(good) == len(self.workers)

    def worker(self, name: str, port: int) -> AbstractContextManager[Worker]:
        """A node of this cluster whose kubelet listens on `port` of the address `name`."""
        config = self.server.kubeconfig(f"{name}-token", name=name)
        return worker(
            self.root / name, name,
            registry=self.registry.host, kubeconfig=config, port=port,
            pause=image(self.layer, "pause"),
        )  # fmt: skip

    def leave(self, *names: str) -> None:
        """Forget nodes that have ended."""
        self.workers = [worker for worker in self.workers if worker.name not in names]
        for name in names:
            self.ask(f"/api/v1/nodes/{name}", "DELETE")

    def delete_pods(self, *nodes: str) -> None:
        """Delete every pod (of `nodes`), so that kubelets stop containers and unmount volumes."""
        for _ in range(GONE_WITHIN):
            pods = [pod for pod in self.ask("/api/v1/pods")["items"]
                    if not nodes or pod["spec"].get("nodeName") in nodes]  # fmt: skip
            if not pods:
                return
            for meta in (pod["metadata"] for pod in pods):
                path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
                if meta.get("finalizers"):
                    self.ask(path, "PATCH", {"metadata": {"finalizers": None}})
                if "deletionTimestamp" not in meta:
                    self.ask(path, "DELETE", {"gracePeriodSeconds": 1})
            time.sleep(0.1)
        raise AssertionError("pods remain")

    def start_controllers(self) -> None:
        """kube-controller-manager and kube-scheduler, with all their defaults."""
        who = self.server.kubeconfig(name="controllers")
        folder = self.server.folder
        for name, flags in {
            "kube-controller-manager": (
                f"--service-account-private-key-file={folder / 'tls.key'}",
                f"--root-ca-file={folder / 'tls.crt'}",
            ),
            "kube-scheduler": (),
        }.items():
            self.processes.spawn(
                name, program(name), f"--kubeconfig={who}", f"--authentication-kubeconfig={who}",
                f"--authorization-kubeconfig={who}", "--bind-address=127.0.0.1",
                f"--secure-port={free_port()}", "--leader-elect=false", *flags,
            )  # fmt: skip


@contextmanager
def joined(running: Cluster, *names: str) -> Iterator[list[Worker]]:
    """Further nodes of a cluster, Ready and taking pods; gone after the block, with their pods."""
    port = running.workers[0].port
    with ExitStack() as left, settings_kept():
        left.callback(running.leave, *names)
        found = [left.enter_context(running.worker(name, port)) for name in names]
        running.workers.extend(found)
        left.callback(running.delete_pods, *names)
        running.processes.until("nodes are Ready", running.nodes_ready)
        yield found


@contextmanager
def control_plane(folder: Path) -> Iterator[Apiserver]:
    """An API server that knows the nodes NAMES and authorizes them as nodes."""
    rows = "".join(f'{n}-token,system:node:{n},uid-{n},"system:nodes"\n' for n in NAMES)
    server = Apiserver(folder, need_both(), unplugged=(), tokens=TOKENS + rows)
    server.flags = (
        "--authorization-mode=Node", "--allow-privileged=true", "--advertise-address=127.0.0.1",
        "--kubelet-preferred-address-types=InternalIP",
    )  # fmt: skip
    try:
        server.start()
        yield server
    finally:
        server.stop()


@contextmanager
def cluster() -> Iterator[Cluster]:
    """A running cluster of one Ready node; nothing of it is left after the block."""
    sweep()
    with ExitStack() as left:
        # Not pytest's folder, which keeps three runs: a node leaves some 200 MB.
        root = Path(left.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX)))
        claim(root)
        left.enter_context(settings_kept())
        registry = left.enter_context(serving(Registry()))
        server = left.enter_context(control_plane(_folder(root, "server")))
        parts = layer(Path(program("node-app")))
        running = Cluster(root, server, registry, Processes(_folder(root, "controllers")), parts)
        left.callback(running.processes.end, "kube-controller-manager", "kube-scheduler")
        running.start_controllers()
        running.workers.append(left.enter_context(running.worker(NAMES[0], free_port())))
        left.callback(running.delete_pods)
        with settings_kept():  # for as short as kubelet's start takes
            running.processes.until("nodes are Ready", running.nodes_ready)
        yield running


def _folder(root: Path, name: str) -> Path:
    (root / name).mkdir()
    return root / name
