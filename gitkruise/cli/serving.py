"""Running a sandbox in the foreground of a command until somebody stops it."""

from __future__ import annotations

import asyncio
import logging
import signal
from collections.abc import Callable
from pathlib import Path

from gitkruise.app import kruise_controllers, release_workloads, sandbox_controllers
from gitkruise.sandbox.inprocess import WorldTransport
from gitkruise.sandbox.server import SandboxOptions, serve
from gitkruise.sandbox.state import StateDir


def run_until_stopped(
    options: SandboxOptions, announce: Callable[[str, Path | None], None]
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is told the URL and where the kubeconfig is."""
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s")
    asyncio.run(_serve(options, announce))


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
