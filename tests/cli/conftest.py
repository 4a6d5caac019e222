"""Fixtures of the command line's tests: a caller, a repository, a cluster that really answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

import pytest

from gitkruise.driving import sandbox_controllers
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.server import SandboxOptions, serve
from tests.cli.calls import Caller
from tests.cli.live import workloads
from tests.cli.shop import Checkout


@pytest.fixture
def gk(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> Caller:
    """Runs command lines in an empty folder; no cluster, no state of the user's."""
    folder = tmp_path / "here"
    folder.mkdir()
    return Caller(
        monkeypatch,
        capfd,
        folder,
        {"HOME": str(tmp_path), "GITKRUISE_STATE": str(tmp_path / "state")},
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Checkout:
    """A fresh repository."""
    return Checkout(tmp_path / "shop")


@contextmanager
def _served(kubeconfig: Path, gates: Gates | None = None) -> Iterator[None]:
    """A sandbox in a thread of its own until the body ends."""
    ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()

    async def main() -> None:
        stop = asyncio.Event()
        options = SandboxOptions(
            ephemeral=True, speed=100.0, kubeconfig=kubeconfig, gates=gates or Gates()
        )
        async with serve(options, controllers=sandbox_controllers):
            ready.set_result((asyncio.get_running_loop(), stop))
            await stop.wait()

    thread = threading.Thread(target=lambda: asyncio.run(main()))
    thread.start()
    loop, stop = ready.result(30)
    yield
    loop.call_soon_threadsafe(stop.set)
    thread.join(30)


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded cluster with its controllers, shared: tests leave it empty.

    `own_cluster` is for what leaves workloads: `status` in any other test would list them.
    """
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with _served(path):
        yield path
        assert workloads(path) == []


@pytest.fixture(scope="module")
def own_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded cluster for one module, which may leave anything in it."""
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with _served(path):
        yield path


@pytest.fixture(scope="module")
def pulling_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The kubeconfig of an embedded cluster for one module, which carries out pull jobs."""
    path = tmp_path_factory.mktemp("cluster") / "kubeconfig"
    with _served(path, Gates(image_pull_job_gate=True)):
        yield path
