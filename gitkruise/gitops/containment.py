"""Containment: the edge around each unit, source, sink, receiver, pull request and promotion.

An exception that is not a GitkruiseError is a defect of this program, or a shortage of its machine.
It concerns only the part that was running: the edge turns it into Crashed, which callers handle
like every other failure (report, back off, try again), so that all other parts go on. This is the
only place of the controller that catches every Exception.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Final

from gitkruise.errors import CRASHED, Crashed, DiagnosticError, Finding, GitkruiseError, leaves
from gitkruise.kube.client.limits import is_logged, pause_s
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.crash_reports import CrashReports, place
from gitkruise.kube.system.shortages import shortage
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
FIRST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 300.0
RECOVERED_S: Final = 60.0  # a job that has run for so long again is well
_UNCHANGED: Final = "everything else goes on; this is tried again after growing pauses"
_SENT_ON: Final = "open an issue with the report; it quotes no text of an exception"
_SEEN_MAX: Final = 1_000
ProblemReport = Callable[[Finding | None], None]


class Containment:
    """Turns unexpected exceptions into Crashed and writes a report of each."""

    def __init__(self, reports: CrashReports | None = None) -> None:
        """Create a containment; without `reports`, no report is written."""
        self._reports = reports
        self._seen: dict[str, int] = {}  # how often a message was logged

    @contextmanager
    def of(self, subject: str, *expected: type[Exception]) -> Iterator[None]:
        """Contain `subject`, such as `Unit shop/web`.

        Raises Crashed for an exception that is neither a GitkruiseError nor `expected`. Of an
        exception group with expected errors only, it raises the first.
        """
        try:
            yield
        except Exception as error:
            known: tuple[type[Exception], ...] = (GitkruiseError, *expected)
            found = [*leaves(error)]
            if error is found[0] and isinstance(error, known):
                raise
            if all(isinstance(one, known) for one in found):
                raise found[0] from error
            raise Crashed(self._finding(subject, error)) from error

    async def keep(
        self, subject: str, job: Callable[[], Awaitable[None]], clock: Clock, report: ProblemReport
    ) -> None:
        """Run `job` to its end; run it again after growing pauses when it fails.

        `report` is called with each failure, and with None once the job has run for RECOVERED_S
        after it.
        """
        failures, again = 0, True
        while again:
            began = clock.monotonic()
            try:
                with self.of(subject):
                    await self._run(job, clock, report if failures else None)
                again = False
            except GitkruiseError as error:
                if clock.monotonic() - began >= RECOVERED_S:
                    failures = 0
                failures += 1
                log.warning(log_line("job-failed", subject=subject, error=error))
                report(error.findings[0] if isinstance(error, DiagnosticError) else None)
                pause = pause_s(
                    failures, first_s=FIRST_PAUSE_S, cap_s=LONGEST_PAUSE_S, seed=subject
                )
                await clock.sleep(pause)

    async def _run(
        self, job: Callable[[], Awaitable[None]], clock: Clock, recovered: ProblemReport | None
    ) -> None:
        if recovered is None:
            await job()
            return
        async with asyncio.TaskGroup() as tasks:
            timer = tasks.create_task(_later(recovered, clock))
            await job()
            timer.cancel()

    def _finding(self, subject: str, error: Exception) -> Finding:
        """Return the finding for users: type and place of the exception, never its text, which may
        quote a value of a Secret."""
        cause = next(leaves(error))
        if (short := shortage(cause, subject, _UNCHANGED)) is not None:
            self._log(short.code, short.message)
            return short
        message = f"{subject}: unexpected {type(cause).__name__}{place(cause)}"
        report = self._reports.kept(error, subject) if self._reports else "none is kept"
        self._log(CRASHED, message, report=report)
        return Finding(
            code=CRASHED,
            message=f"{message}; report: {report}",
            notes=(("unchanged", _UNCHANGED), ("report", report), ("next", _SENT_ON)),
        )

    def _log(self, code: str, message: str, **more: str) -> None:
        """Log fewer and fewer occurrences: the job fails until it is fixed."""
        if len(self._seen) >= _SEEN_MAX:
            self._seen.clear()
        count = self._seen[message] = self._seen.get(message, 0) + 1
        if is_logged(count):
            log.error(log_line("crashed", code=code, error=message, **more, count=count))


async def _later(report: ProblemReport, clock: Clock) -> None:
    await clock.sleep(RECOVERED_S)
    report(None)


UNREPORTED: Final = Containment()  # contains, and writes no reports
