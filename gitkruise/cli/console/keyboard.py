"""Single key presses of the terminal while a command watches; its settings are restored."""

from __future__ import annotations

import asyncio
import codecs
import os
import re
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress

_CHUNK = 1024
_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|O.)")  # an arrow, a function key


def on_signal(name: str, act: Callable[[], None]) -> None:
    """Call `act` in the running loop on a signal, if the platform and the thread allow it."""
    number = getattr(signal, name, None)
    if number is not None and threading.current_thread() is threading.main_thread():
        asyncio.get_running_loop().add_signal_handler(number, act)


@contextmanager
def keyboard(
    press: Callable[[str], None], aside: Callable[[], AbstractContextManager[None]] = nullcontext
) -> Iterator[bool]:
    """Pass every key to `press` immediately and unechoed; yields whether there is a keyboard.

    Ctrl-C and Ctrl-Z stay signals: after Ctrl-Z the terminal is the shell's, and the process rests
    in `aside`, until it goes on. Arrow and function keys are dropped; a terminal that closes is the
    key "", and the last one.
    """
    fd = sys.stdin.fileno() if sys.stdin and not sys.stdin.closed else -1
    if fd < 0 or not os.isatty(fd):
        yield False
        return
    import termios  # noqa: PLC0415  not on every platform, and only for terminals

    loop = asyncio.get_running_loop()
    before = termios.tcgetattr(fd)
    raw = [*before[:3], before[3] & ~(termios.ICANON | termios.ECHO), *before[4:6], [*before[6]]]
    raw[6][termios.VMIN], raw[6][termios.VTIME] = 1, 0

    letters = codecs.getincrementaldecoder("utf-8")("ignore")

    def read() -> None:
        try:
            chunk = os.read(fd, _CHUNK)
        except OSError:
            chunk = b""
        if not chunk:
            loop.remove_reader(fd)
            press("")
        for key in _SEQUENCE.sub("", letters.decode(chunk)):
            press(key)

    def rest() -> None:
        termios.tcsetattr(fd, termios.TCSADRAIN, before)
        with aside():
            os.kill(os.getpid(), signal.SIGSTOP)
        termios.tcsetattr(fd, termios.TCSADRAIN, raw)

    termios.tcsetattr(fd, termios.TCSADRAIN, raw)
    on_signal("SIGTSTP", rest)
    loop.add_reader(fd, read)
    try:
        yield True
    finally:
        loop.remove_reader(fd)
        with suppress(termios.error):  # the terminal is closed
            termios.tcsetattr(fd, termios.TCSADRAIN, before)
