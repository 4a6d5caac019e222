"""Failures of a round: reported, and retried after growing pauses."""

from __future__ import annotations

import logging
from datetime import timedelta
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
