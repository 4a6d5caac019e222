"""Programs with the controllers of kube-controller-manager, next to a real API server."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from tests.conftest import need
from tests.kube.real.apiserver import Apiserver, find, free_port


@contextmanager
def endpoints(server: Apiserver) -> Iterator[None]:
    """Run the controllers that keep the endpoints of Services while the block runs."""
    with _running(server, "endpoints", str(server.kubeconfig())):
        yield


@contextmanager
def controller_manager(
    server: Apiserver, controllers: Sequence[str], *flags: str
) -> Iterator[None]:
    """Run kube-controller-manager with `controllers` (names without "-controller")."""
    who = server.kubeconfig(name="controllers")
    names = ",".join(f"{name}-controller" for name in controllers)
    settings = (
        f"--kubeconfig={who}", f"--authentication-kubeconfig={who}",
        f"--authorization-kubeconfig={who}", "--bind-address=127.0.0.1",
        f"--secure-port={free_port()}", "--leader-elect=false", f"--controllers={names}",
    )  # fmt: skip
    with _running(server, "kube-controller-manager", *settings, *flags):
        yield


@contextmanager
def _running(server: Apiserver, name: str, *arguments: str) -> Iterator[None]:
    """Run a program of `make kube-assets`. Skips the test when it is missing."""
    program = find(name)
    need("kube", present=bool(program), how="make kube-assets")
    with (server.folder / f"{name}.log").open("wb") as log:
        process = subprocess.Popen((program, *arguments), stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()
