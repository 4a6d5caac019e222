"""Commits of a unit that are not judged yet, and the pauses after failures."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Crashed, DiagnosticError, Finding, NotLeading
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import RetryPause

log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_NOT_LEADING_S: Final = 2.0
_SILENT: Final = (
    ("unchanged", "everything live stays as it is; it is retried"),
    ("next", "gitkruise doctor cluster"),
)


class CommitQueue:
    """Commits of one unit that are not judged yet, and one that is judged again later.

    At most one is `pending`, to be read in the next round. Others rest: `parked` until other units
    are ready, shelved after a crash. A commit that is offered replaces them, and a rejected one
    that was to be judged again: its verdict would come after that of a newer commit.
    """

    def __init__(self) -> None:
        self.pending, self.parked = "", ""
        self._judging = ""  # the commit that is validated in this round
        self.offered = False  # a commit since the last round began
        self._shelved: tuple[str, RetryPause] | None = None
        self._again: tuple[str, RetryPause] | None = None
        self._rejected = False  # the commit that was judged last
        self._failed = ""  # its judgement failed in this round

    @property
    def news(self) -> str:
        """The newest commit, while it is not judged yet."""
        resting = self.parked or (self._shelved[0] if self._shelved else "")
        return self.pending or self._judging or resting

    @property
    def soon(self) -> bool:
        """True while the newest commit is about to be judged: it neither rests nor failed."""
        return bool(self.pending or self._judging) and not self._failed

    @property
    def empty(self) -> bool:
        """True when nothing is left to judge, now or later."""
        return not self.news and self._again is None

    @property
    def crashed(self) -> bool:
        return self._shelved is not None

    @property
    def failed(self) -> bool:
        """True after the judgement of a commit failed in this round; it stays pending."""
        return bool(self._failed)

    @property
    def overtaken(self) -> bool:
        """True while a commit is pending that this round has not tried to judge."""
        return self.pending != self._failed

    def offer(self, commit: str) -> None:
        self.pending, self.parked, self._shelved, self.offered = commit, "", None, True
        self._again = None if self._rejected else self._again

    def begin_round(self) -> None:
        self.offered, self._failed = False, ""

    def wake(self, now: datetime) -> None:
        """Let commits whose pause is over be read again."""
        if self._shelved is not None and not self._shelved[1].rests(now):
            self.pending, self._shelved = self.pending or self._shelved[0], None
        if self._again is not None and not self._again[1].rests(now):
            self.pending, self._again = self.pending or self._again[0], None

    def park(self, commit: str) -> None:
        """Let a commit rest until other units are ready."""
        self.parked, self._judging = commit, ""

    def unpark(self) -> None:
        """Let the parked commit be read again."""
        self.pending, self.parked = self.parked, ""

    def take(self) -> str:
        """Return the pending commit, to be judged: it is no longer pending."""
        self._judging, self.pending = self.pending, ""
        return self._judging

    def put_back(self, commit: str) -> None:
        """Keep a commit pending that could not be judged, unless another one came meanwhile."""
        self.pending, self._judging = self.pending or commit, ""

    def note_failure(self) -> None:
        """Record that this round cannot judge the pending commit."""
        self._failed = self.pending

    def shelve(self, commit: str, pause: RetryPause) -> None:
        """Let a commit that crashed rest, unless another one came meanwhile."""
        self._judging = ""
        if self.pending in {"", commit}:
            self.pending, self._shelved = "", (commit, pause)

    def judged(self, again: tuple[str, RetryPause] | None, *, rejected: bool) -> None:
        """Record a verdict, and when it is asked for again; a rejected commit leaves that of the
        live one as it is."""
        self._again = again or (self._again if rejected else None)
        self._rejected, self._judging = rejected, ""

    def wake_times(self) -> Sequence[datetime]:
        """Return the ends of the pauses."""
        return [pause.until for _, pause in filter(None, (self._again, self._shelved))]


class Setbacks:
    """Consecutive failures of one unit; pauses grow with them."""

    def __init__(self, unit: str, clock: Clock, reporter: Reporter) -> None:
        self._unit, self._clock, self._reporter = unit, clock, reporter
        self._failures = 0

    def over(self) -> None:
        """Record a successful round."""
        self._failures = 0

    def failed(self, error: DiagnosticError | ApiError) -> RetryPause:
        """Report a failure; return the pause before the next try. Another leading process is no
        failure."""
        if isinstance(error, NotLeading):
            return self._pause(_NOT_LEADING_S)
        log.warning(log_line("reconcile-failed", unit=self._unit, error=error))
        if isinstance(error, DiagnosticError):
            self._reporter.problem(error.findings)
        else:
            text = f"the cluster did not answer: {error.message}"
            self._reporter.problem((Finding(code="GK4102", message=text, notes=_SILENT),))
        return self.back_off()

    def crashed(self, part: str, error: Crashed) -> RetryPause:
        """Report an unexpected exception in a part of the unit's work; return the pause before the
        next try."""
        self._reporter.crashed(part, error.findings[0])
        return self.back_off()

    def back_off(self) -> RetryPause:
        """Return the pause before the next try, after one failure more."""
        self._failures += 1
        pause = pause_s(
            self._failures, first_s=_FIRST_PAUSE_S, cap_s=_LONGEST_PAUSE_S, seed=self._unit
        )
        return self._pause(pause)

    def _pause(self, seconds: float) -> RetryPause:
        now = self._clock.now()
        return RetryPause(now, now + timedelta(seconds=seconds))
