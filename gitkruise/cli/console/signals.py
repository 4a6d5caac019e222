"""Signals that end a command which runs until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable


def stop_event(also: Callable[[], None] = lambda: None) -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets, after which `also` is called.

    A second signal ends the process.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def once(number: signal.Signals) -> None:
        loop.remove_signal_handler(number)
        stop.set()
        also()

    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, once, number)
    return stop
