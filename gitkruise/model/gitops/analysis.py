"""Measurements before the next step of a promotion: metrics as configured, runs as recorded.

Fields, names and defaults are those of Argo Rollouts' AnalysisTemplate, `thresholdRange` that of
Flagger's metrics.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from gitkruise.model.gitops.strict_struct import Strict
from gitkruise.wire.primitives.times import parse_duration

VARIABLE: Final = re.compile(r"\{\{\s*([\w.-]*)\s*\}\}")  # in queries and URLs
VARIABLES: Final = ("namespace", "target", "revision")
MEASUREMENTS_MAX: Final = 10  # that a result keeps of each metric; the counts are always whole


class SecretReference(Strict, frozen=True):
    """A Secret of the unit's namespace."""

    name: str


class ThresholdRange(Strict, frozen=True):
    """The accepted values, both bounds included; None is no bound."""

    min: float | None = None
    max: float | None = None

    def accepts(self, value: float) -> bool:
        """Return whether `value` is in the range."""
        low = self.min is None or value >= self.min
        return low and (self.max is None or value <= self.max)


class PrometheusProvider(Strict, frozen=True):
    """An instant query to the HTTP API at `address`."""

    address: str
    query: str
    secret_ref: SecretReference | None = None


class WebProvider(Strict, frozen=True):
    """JSON of an HTTP endpoint; `json_path` selects the value, "" is the whole document."""

    url: str
    json_path: str = ""
    secret_ref: SecretReference | None = None


class JobProvider(Strict, frozen=True):
    """A Job; `spec` is its JobSpec."""

    spec: dict[str, Any]


class MetricProvider(Strict, frozen=True):
    """Exactly one is set."""

    prometheus: PrometheusProvider | None = None
    web: WebProvider | None = None
    job: JobProvider | None = None

    @property
    def set(self) -> tuple[str, ...]:
        """Return the names of those that are set."""
        return tuple(n for n in ("prometheus", "web", "job") if getattr(self, n) is not None)

    @property
    def secret(self) -> str:
        """Return the name of its Secret, or ""."""
        http = self.prometheus or self.web
        return http.secret_ref.name if http is not None and http.secret_ref is not None else ""

    @property
    def address(self) -> str:
        """Return the address that it names, or ""."""
        if self.prometheus is not None:
            return self.prometheus.address
        return self.web.url if self.web is not None else ""


class Metric(Strict, frozen=True):
    """A metric: its provider, when it is measured, and which values are good."""

    name: str
    provider: MetricProvider
    initial_delay: str = "0s"
    interval: str = ""
    count: int = 1
    failure_limit: int = 0
    inconclusive_limit: int = 0
    consecutive_error_limit: int = 4
    success_condition: str = ""
    failure_condition: str = ""
    threshold_range: ThresholdRange | None = None

    @property
    def delay(self) -> timedelta:
        """Return the time before the first measurement."""
        return parse_duration(self.initial_delay)

    @property
    def pause(self) -> timedelta:
        """Return the time between two measurements; zero without an interval."""
        return parse_duration(self.interval) if self.interval else timedelta()


class AnalysisPhase(StrEnum):
    """State of a measurement, a metric or a run."""

    PENDING = "Pending"
    RUNNING = "Running"
    SUCCESSFUL = "Successful"
    FAILED = "Failed"
    ERROR = "Error"
    INCONCLUSIVE = "Inconclusive"

    @property
    def completed(self) -> bool:
        """Return whether it is final."""
        return self not in {AnalysisPhase.PENDING, AnalysisPhase.RUNNING}

    @property
    def bad(self) -> bool:
        """Return whether it is a reason to go back: Failed or Error."""
        return self in {AnalysisPhase.FAILED, AnalysisPhase.ERROR}


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurement:
    """One measurement that was taken: `phase` is its verdict, `value` is JSON text, cut."""

    at: datetime  # its end
    phase: AnalysisPhase
    value: str = ""
    message: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """Measurements of one metric: counts of all, and the newest, oldest first."""

    name: str
    phase: AnalysisPhase = AnalysisPhase.PENDING
    successful: int = 0
    failed: int = 0
    inconclusive: int = 0
    error: int = 0
    consecutive_error: int = 0
    message: str = ""
    measurements: tuple[Measurement, ...] = ()

    @property
    def count(self) -> int:
        """Return how many measurements had an answer; errors have none."""
        return self.successful + self.failed + self.inconclusive

    @property
    def taken(self) -> int:
        """Return how many measurements were taken."""
        return self.count + self.error


@dataclass(frozen=True, slots=True, kw_only=True)
class AnalysisRun:
    """The measurements of one step of a promotion.

    `mark` names what they are about: the workload, its revision, the step and the metrics. `pods`
    is the largest number of pods that were seen on the revision meanwhile. A run that was `left`
    decides nothing: the rollout went on or back, and is measured again if it returns.
    """

    mark: str
    revision: str  # short hash
    step: int  # from 1
    started: datetime
    phase: AnalysisPhase = AnalysisPhase.PENDING
    message: str = ""
    pods: int = 0
    finished: datetime | None = None
    note: str = ""  # why it began again, or may be lost
    left: bool = False
    metrics: tuple[MetricResult, ...] = ()


def run_mark(uid: str, revision: str, step: int, metrics: Iterable[Metric]) -> str:
    """Return the mark of a run: the same as long as nothing that it is about changes."""
    digest = hashlib.sha256(msgspec.json.encode([*metrics], order="sorted")).hexdigest()[:12]
    return f"{uid}/{revision}/{step}/{digest}"


def filled(text: str, variables: Mapping[str, str]) -> str:
    """Return `text` with its variables replaced. Raises KeyError for an unknown one."""
    return VARIABLE.sub(lambda found: variables[found[1]], text)
