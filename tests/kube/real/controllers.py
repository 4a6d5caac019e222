"""The controllers of kube-controller-manager that keep the endpoints of Services, as a process."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.conftest import need
from tests.kube.real.apiserver import Apiserver, find


@contextmanager
def endpoints(server: Apiserver) -> Iterator[None]:
    """They run against `server` for the length of a block. Skips the test when they are missing."""
    program = find("endpoints")
    need("kube", present=bool(program), how="make kube-assets")
    with (server.folder / "endpoints.log").open("wb") as log:
        command = (program, str(server.kubeconfig()))
        process = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            yield
        finally:
            process.kill()
            process.wait()
