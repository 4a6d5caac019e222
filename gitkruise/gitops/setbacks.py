"""What goes wrong in a round, told, and after how long it is tried again."""

from __future__ import annotations

import logging
from datetime import datetime, timedelta
from typing import Final

from gitkruise.errors import ApiError, Finding, Reported
from gitkruise.gitops.reporter import Reporter
from gitkruise.kube.clock import Clock
from gitkruise.kube.limits import pause_s

log = logging.getLogger(__name__)
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.5, 30.0
_UNCHANGED: Final = ("unchanged", "everything live stays as it is; we go on trying")


class Setbacks:
    """Failures of one unit in a row; pauses grow with them."""

    def __init__(self, unit: str, clock: Clock, reporter: Reporter) -> None:
        self._unit, self._clock, self._reporter = unit, clock, reporter
        self._failures = 0

    def over(self) -> None:
        """A round went well."""
        self._failures = 0

    def failed(self, error: Reported | ApiError) -> datetime:
        """Tell what went wrong; when to try again."""
        log.warning("%s: %s", self._unit, error)
        if isinstance(error, Reported):
            self._reporter.problem(error.findings)
        else:
            text = f"the cluster did not answer: {error.message}"
            self._reporter.problem((Finding(code="GK4102", message=text, notes=(_UNCHANGED,)),))
        return self.back_off()

    def back_off(self) -> datetime:
        """When to try again, after one failure more."""
        self._failures += 1
        pause = pause_s(
            self._failures, first_s=_FIRST_PAUSE_S, cap_s=_LONGEST_PAUSE_S, seed=self._unit
        )
        return self._clock.now() + timedelta(seconds=pause)
