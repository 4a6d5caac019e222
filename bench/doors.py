"""The two servers of a comparison: our embedded cluster, and kube-apiserver on etcd."""

from __future__ import annotations

import base64
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import yaml

from bench.idle import cpu_s, rss_mib
from bench.lines import Door
from tests.e2e.cluster import Cluster, sandbox
from tests.kube.real.apiserver import ADMIN, Apiserver, find

BARE = ("--no-kubelet", "--no-controllers")  # what a kube-apiserver alone does


@dataclass(frozen=True, slots=True, kw_only=True)
class Server:
    """A running API server: what to call it, its door, and the processes it consists of."""

    name: str
    door: Door
    pids: Sequence[int]

    @property
    def cpu_s(self) -> float:
        return sum(map(cpu_s, self.pids))

    @property
    def rss_mib(self) -> float:
        return sum(map(rss_mib, self.pids))


@contextmanager
def both(folder: Path) -> Iterator[list[Server]]:
    """Ours, then the real one if its programs are here. Both sync each write to disk."""
    with ExitStack() as stack:
        servers = [own(stack.enter_context(sandbox(folder / "state", *BARE)))]
        etcd, program = find("etcd"), find("kube-apiserver")
        if etcd and program:
            real = Apiserver(folder, (etcd, program), durable=True)
            stack.callback(real.stop)
            real.start()
            door = Door(url=real.url, token=ADMIN, ca_pem=real.ca_pem)
            servers.append(Server(name="kube-apiserver and etcd", door=door, pids=real.pids))
        else:
            sys.stderr.write("no comparison: make kube-assets, etcd, KUBEBUILDER_ASSETS\n")
        yield servers


def own(cluster: Cluster) -> Server:
    """The server of a sandbox that runs."""
    config = yaml.safe_load(cluster.kubeconfig.read_text())
    place, user = config["clusters"][0]["cluster"], config["users"][0]["user"]
    authority = base64.b64decode(place["certificate-authority-data"]).decode()
    door = Door(url=place["server"], token=user["token"], ca_pem=authority)
    return Server(name="embedded cluster", door=door, pids=[cluster.status()["pid"]])
