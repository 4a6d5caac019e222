"""A sandbox in the foreground of a command, until a signal stops it."""

from __future__ import annotations

import asyncio
import gc
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gitkruise.cli.console.log_format import log_to_stderr
from gitkruise.cli.console.signals import stop_event
from gitkruise.driving import kruise_controllers, sandbox_controllers
from gitkruise.gitops.cluster.engine import release_workloads
from gitkruise.sandbox.backend.state_dir import StateDir
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.sandbox.server import Dashboard, SandboxOptions, SandboxServer, serve

Announce = Callable[[SandboxServer, Path | None], None]

# The objects of a cluster are not garbage: full collections while it grows take a sixth of the time
# of a write. This makes them rare.
OLD_COLLECTIONS: Final = 100


def run_until_stopped(
    options: SandboxOptions, announce: Announce, dashboard: Dashboard | None = None
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` gets the server and the path of the kubeconfig."""
    log_to_stderr(logging.WARNING)
    gc.set_threshold(gc.get_threshold()[0], gc.get_threshold()[1], OLD_COLLECTIONS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(options, announce, dashboard))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return uvloop's factory if the extra `speed` is installed, otherwise asyncio's."""
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ImportError:
        return None
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return loop


async def _serve(options: SandboxOptions, announce: Announce, dashboard: Dashboard | None) -> None:
    stop = stop_event()
    inside = sandbox_controllers if options.kubelet else kruise_controllers
    async with serve(options, controllers=inside, dashboard=dashboard) as sandbox:
        if not options.controllers:
            await release_workloads(WorldTransport(sandbox.cluster))
        kept = StateDir(options.state_dir).kubeconfig if options.state_dir else None
        announce(sandbox, options.kubeconfig or kept)
        await stop.wait()
