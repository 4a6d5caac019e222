"""Running a sandbox in the foreground of a command until somebody stops it."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gitkruise.app import kruise_controllers, release_workloads, sandbox_controllers
from gitkruise.sandbox.inprocess import WorldTransport
from gitkruise.sandbox.server import SandboxOptions, serve
from gitkruise.sandbox.state import StateDir

# What a cluster stores is no rubbish: looking through all of it as it grows takes a sixth of the
# time of a write. This makes that look rare.
OLD_COLLECTIONS: Final = 100


def run_until_stopped(
    options: SandboxOptions, announce: Callable[[str, Path | None], None]
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is told the URL and where the kubeconfig is."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    gc.set_threshold(gc.get_threshold()[0], gc.get_threshold()[1], OLD_COLLECTIONS)
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        runner.run(_serve(options, announce))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """uvloop's, where the extra `speed` is installed; else asyncio's own."""
    try:
        import uvloop  # noqa: PLC0415  an extra
    except ImportError:
        return None
    loop: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return loop


async def _serve(options: SandboxOptions, announce: Callable[[str, Path | None], None]) -> None:
    stop = stop_event()
    inside = sandbox_controllers if options.kubelet else kruise_controllers
    async with serve(options, controllers=inside) as sandbox:
        if not options.controllers:
            await release_workloads(WorldTransport(sandbox.cluster))
        kept = StateDir(options.state_dir).kubeconfig if options.state_dir else None
        announce(sandbox.url, options.kubeconfig or kept)
        await stop.wait()


def stop_event() -> asyncio.Event:
    """Set by SIGINT or SIGTERM; a second signal ends the process at once."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def once(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, once, number)
    return stop
