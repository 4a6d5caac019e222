"""Signals that end a command which runs until it is stopped."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

TOGETHER_S: Final = 0.5  # a wrapper passes on what the terminal or its group sent here already
_ENDING: Final = (signal.SIGINT, signal.SIGTERM)
_T = TypeVar("_T")


def result_of(work: Coroutine[Any, Any, _T]) -> _T:
    """Return the result of `asyncio.run(work)`, which may be large.

    asyncio.run ends by looking at the signal handler, and Python then writes its repr, with that of
    the task and of its result: of thousands of objects that takes half of a second.
    """
    found: list[_T] = []

    async def keep() -> None:
        found.append(await work)

    asyncio.run(keep())
    return found[0]


def stop_event(also: Callable[[], None] = lambda: None) -> asyncio.Event:
    """Return an event that SIGINT, SIGTERM or SIGHUP sets, after which `also` is called.

    A second signal ends the process, unless it comes together with the first. SIGHUP of
    a closed terminal stays ignored after `nohup`.
    """
    stop = asyncio.Event()
    ending = list(_ENDING)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ending.append(signal.SIGHUP)
    loop = asyncio.get_running_loop()

    def once() -> None:
        if stop.is_set():
            return
        for number in ending:
            loop.call_later(TOGETHER_S, loop.remove_signal_handler, number)
        stop.set()
        also()

    for number in ending:
        loop.add_signal_handler(number, once)
    return stop


class Startup:
    """The time until a process serves, which may be long: `stop`, set by a signal, ends it.

    Without it a signal would take effect only once the API server answered, or the lease was free.
    `also` is called at the signal.
    """

    def __init__(self, also: Callable[[], object] = lambda: None) -> None:
        self._task, self.over = asyncio.current_task(), False
        self._stopped, self._also = False, also
        self.stop = stop_event(self._signalled)

    def _signalled(self) -> None:
        self._also()
        if not self.over and self._task is not None:
            self._stopped = True
            self._task.cancel()

    async def __aenter__(self) -> Startup:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return self._stopped and kind is asyncio.CancelledError
