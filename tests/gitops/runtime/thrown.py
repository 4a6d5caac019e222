"""Throws one exception at one place where the program waits for something outside of it."""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Coroutine, Generator, Iterator
from concurrent.futures import Future
from contextvars import ContextVar
from types import FrameType
from typing import Any, Final, NamedTuple

from gitkruise.errors import ApiError
from gitkruise.wire.primitives.requests import ApiRequest
from tests.gitops.stage import Inline

PROGRAM: Final = "/gitkruise/"
AROUND: Final = ("/gitkruise/sandbox/", "/gitkruise/world/")  # the cluster, not the program
# An exception inside of these breaks asyncio itself, and no I/O does that.
NEVER: Final = ("asyncio/locks.py", "asyncio/taskgroups.py", "asyncio/queues.py")
DEPTH: Final = 6  # lines that tell one place from another
# Tasks inherit it from those that start them: the program's have it, its cluster's do not.
_OURS: Final = ContextVar[bool]("_OURS", default=False)


class Thrown(Exception):
    """An exception that nobody expects."""


class Place(NamedTuple):
    """How the program came to an await: `file:line` of its innermost calls, the last one first."""

    lines: tuple[str, ...]

    def __str__(self) -> str:
        return " < ".join(self.lines)


class Thrower:
    """Counts the awaits of a program while `armed`, and throws at one place: once, or `always`.

    Awaits are requests to the cluster, work in threads, and every other suspension of a task.
    """

    def __init__(self, at: Place | None = None, *, always: bool = False) -> None:
        self.seen: Counter[Place] = Counter()
        self.thrown = self.armed = False
        self._at, self.always = at, always

    def install(self) -> None:
        """Use this thrower for what the running task starts, and for threads of its loop."""
        _OURS.set(True)
        loop = asyncio.get_running_loop()
        loop.set_task_factory(self._task)
        loop.set_default_executor(_Threads(self))

    def refuse(self, _: ApiRequest) -> ApiError | None:
        """Stand in for `Wire.refuse`."""
        self.pass_by(_stack(sys._getframe(1)))
        return None

    def pass_by(self, frames: Iterator[FrameType]) -> None:
        """Raise Thrown if this is the place; `frames` are those of an await, innermost first."""
        if self.armed and self.strikes(_place(frames)):
            raise Thrown("nobody expects this")

    def strikes(self, place: Place | None) -> bool:
        """Return whether to throw at this place."""
        if place is None or not self.armed:
            return False
        self.seen[place] += 1
        if place != self._at or (self.thrown and not self.always):
            return False
        self.thrown = True
        return True

    def _task(
        self, loop: asyncio.AbstractEventLoop, coro: Any, /, **options: Any
    ) -> asyncio.Task[Any]:
        work = _Driven(coro, self) if _OURS.get() else coro
        return asyncio.Task(work, loop=loop, **options)


class _Threads(Inline):
    def __init__(self, thrower: Thrower) -> None:
        super().__init__()
        self._thrower = thrower

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        frames = [*_stack(sys._getframe(1))]

        def work() -> Any:
            self._thrower.pass_by(iter(frames))
            return fn(*args, **kwargs)

        return super().submit(work)


class _Driven(Coroutine[Any, Any, Any]):
    """A coroutine for a task, into which the thrower throws instead of waking it."""

    def __init__(self, coro: Coroutine[Any, Any, Any], thrower: Thrower) -> None:
        self._coro, self._thrower, self._begun = coro, thrower, False

    def send(self, value: Any) -> Any:
        begun, self._begun = self._begun, True
        frames = [*_suspended(self._coro)] if begun else []
        throwable = bool(frames) and not frames[0].f_code.co_filename.endswith(NEVER)
        if throwable and self._thrower.strikes(_place(iter(frames))):
            return self._coro.throw(Thrown("nobody expects this"))
        return self._coro.send(value)

    def throw(self, *error: Any) -> Any:
        return self._coro.throw(*error)

    def close(self) -> None:
        self._coro.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        raise TypeError("a task drives it")


def _place(frames: Iterator[FrameType]) -> Place | None:
    """Return the place that frames lead to; None outside of the program."""
    lines: list[str] = []
    for frame in frames:
        file = frame.f_code.co_filename
        if PROGRAM in file and not any(folder in file for folder in AROUND):
            lines.append(f"{file.rpartition(PROGRAM)[2]}:{frame.f_lineno}")
    return Place(tuple(lines[:DEPTH])) if lines else None


def _stack(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back


def _suspended(coro: Any) -> list[FrameType]:
    """Return the frames of a suspended coroutine, innermost first."""
    frames: list[FrameType] = []
    while coro is not None:
        frame = _first(coro, "cr_frame", "ag_frame", "gi_frame")
        if not isinstance(frame, FrameType):
            break
        frames.insert(0, frame)
        coro = _first(coro, "cr_await", "ag_await", "gi_yieldfrom")
    return frames


def _first(obj: Any, *names: str) -> Any:
    return next((found for name in names if (found := getattr(obj, name, None)) is not None), None)
