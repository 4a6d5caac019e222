"""Signals that end a command which runs until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Final

TOGETHER_S: Final = 0.5  # a wrapper passes on what the terminal or its group sent here already
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)


def stop_event(also: Callable[[], None] = lambda: None) -> asyncio.Event:
    """Return an event that SIGINT or SIGTERM sets, after which `also` is called.

    A second signal ends the process, unless it comes together with the first.
    """
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def once() -> None:
        if stop.is_set():
            return
        for number in _ENDING:
            loop.call_later(TOGETHER_S, loop.remove_signal_handler, number)
        stop.set()
        also()

    for number in _ENDING:
        loop.add_signal_handler(number, once)
    return stop
