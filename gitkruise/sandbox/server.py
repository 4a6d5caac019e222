"""A running sandbox: everything is up when `serve` yields and gone when it exits."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from gitkruise.model.settings import Gates
from gitkruise.sandbox.cluster import Cluster


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxOptions:
    """What one sandbox is like. `state_dir` None (or `ephemeral`) keeps nothing on disk.

    `port` 0 takes a free one; `speed` is how many seconds pass inside for one outside.
    """

    state_dir: Path | None = None
    ephemeral: bool = False
    port: int = 0
    kubelet: bool = True
    controllers: bool = True
    gates: Gates = field(default_factory=Gates)
    nodes: int = 5
    speed: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Sandbox:
    """A sandbox that answers. `ca` is the PEM of its authority, `kubeconfig` a complete YAML text."""

    url: str
    token: str
    ca: str
    kubeconfig: str
    cluster: Cluster


@asynccontextmanager
async def serve(options: SandboxOptions) -> AsyncIterator[Sandbox]:
    """Start a sandbox, yield it once it answers, stop everything on exit.

    Raises ClusterFailed GK4101.. when the port, the state directory or the store is not usable.
    """
    del options
    raise AssertionError("not started yet")
    yield
