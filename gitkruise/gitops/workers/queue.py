"""A worker process and the queue of its jobs: reads that wait together are one job.

A thousand units that follow one repository read the same commit. Sending each read to the process
alone would cost two switches of the CPU and leave the process idle while we unpack.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, TypeVar

from gitkruise.gitops.build.builder import BuildResult
from gitkruise.gitops.workers.process import WorkerEnded, WorkerProcess
from gitkruise.gitops.workers.reads import Outcome, PendingRead, read_all

_T = TypeVar("_T")
_TOGETHER_MAX: Final = 64  # reads of one job: whatever waits behind them waits for no more


@dataclass(frozen=True, slots=True, eq=False)
class _Read:
    """A read that goes to the process with others."""

    reading: PendingRead
    future: asyncio.Future[BuildResult]


@dataclass(frozen=True, slots=True, eq=False)
class _Other:
    """A job that goes to the process alone."""

    run: Callable[[WorkerProcess], Any]
    future: asyncio.Future[Any]


_Waiting: TypeAlias = _Read | _Other
_Settled: TypeAlias = tuple[asyncio.Future[Any], Any]  # who asked, and the answer or the error


class WorkerSlot:
    """A process and its queue. Jobs run in a thread, one after another, in order.

    A caller that is cancelled does not stop its job: what the process caches is kept.
    """

    def __init__(self, process: WorkerProcess) -> None:
        self.process = process
        self._waiting: deque[_Waiting] = deque()
        self._busy = False

    async def read(self, read: PendingRead) -> BuildResult:
        """Read a commit for a unit, in one job with the reads next to it. Raises SourceFailed."""
        future: asyncio.Future[BuildResult] = asyncio.get_running_loop().create_future()
        self._queue(_Read(read, future))
        return await future

    async def run(self, job: Callable[[WorkerProcess], _T]) -> _T:
        """Run a job; once more when the process died without exceeding a limit. Raises
        WorkerEnded."""
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue(_Other(job, future))
        return await future

    def _queue(self, one: _Waiting) -> None:
        self._waiting.append(one)
        self._next()

    def _next(self) -> None:
        """Hand the next job to a thread, unless one runs."""
        if self._busy or not (batch := self._batch()):
            return
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(None, self._serve, batch, loop)
        self._busy = True
        running.add_done_callback(lambda done: self._finish(batch, done))

    def _batch(self) -> Sequence[_Waiting]:
        """Return the next job with a caller that still waits, and the reads that go with it."""
        batch: list[_Waiting] = []
        while self._waiting and len(batch) < _TOGETHER_MAX:
            following = self._waiting[0]
            if batch and not _together(batch[0], following):
                break
            self._waiting.popleft()
            if not following.future.cancelled():
                batch.append(following)
        return batch

    def _serve(
        self, batch: Sequence[_Waiting], loop: asyncio.AbstractEventLoop
    ) -> Sequence[_Settled]:
        """Run a job; return the outcomes not yet handed on.

        Answers that arrive together wake the loop only once, and the last ones with the end of the
        job.
        """
        ready: list[_Settled] = []
        for number, settled in enumerate(_outcomes(self.process, batch), 1):
            ready.append(settled)
            if number < len(batch) and not self.process.more:
                loop.call_soon_threadsafe(_settle, ready)
                ready = []
        return ready

    def _finish(self, batch: Sequence[_Waiting], done: asyncio.Future[Sequence[_Settled]]) -> None:
        self._busy = False
        error = done.exception()
        _settle([(one.future, error) for one in batch] if error is not None else done.result())
        self._next()


def _together(one: _Waiting, other: _Waiting) -> bool:
    if isinstance(one, _Read) and isinstance(other, _Read):
        return one.reading.goes_with(other.reading)
    return False


def _outcomes(process: WorkerProcess, batch: Sequence[_Waiting]) -> Iterator[_Settled]:
    reads = [one for one in batch if isinstance(one, _Read)]
    outcomes: Iterator[Outcome] = read_all(process, [one.reading for one in reads])
    for one in batch:
        if isinstance(one, _Other):
            yield one.future, _attempted(process, one.run)
    for read, outcome in zip(reads, outcomes, strict=True):
        yield read.future, outcome


def _attempted(process: WorkerProcess, run: Callable[[WorkerProcess], _T]) -> _T:
    try:
        return run(process)
    except WorkerEnded as ended:
        if ended.limit:
            raise
    return run(process)


def _settle(outcomes: Iterable[_Settled]) -> None:
    """Set the outcomes of futures that are still pending."""
    for future, outcome in outcomes:
        if future.done():
            continue
        if isinstance(outcome, BaseException):
            future.set_exception(outcome)
        else:
            future.set_result(outcome)
