"""Verdict of one measurement, and of the metric that it belongs to.

Source of the rules: Argo Rollouts. A metric has failed when more measurements failed than its
failureLimit allows, and is inconclusive or in error by inconclusiveLimit and consecutiveErrorLimit;
it is successful when `count` measurements had an answer before that. Errors are not counted.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from gitkruise.model.gitops.analysis import (
    MEASUREMENTS_MAX,
    AnalysisPhase,
    Measurement,
    Metric,
    MetricResult,
    ThresholdRange,
)

_COUNTED: Final = {
    AnalysisPhase.SUCCESSFUL: "successful", AnalysisPhase.FAILED: "failed",
    AnalysisPhase.INCONCLUSIVE: "inconclusive", AnalysisPhase.ERROR: "error",
}  # fmt: skip
_ODD: Final = {"nan": "NaN", "inf": "+Inf", "-inf": "-Inf"}  # as Prometheus writes them


@dataclass(frozen=True, slots=True)
class MeasurementResult:
    """Phase of a measurement, and why, where that needs words."""

    phase: AnalysisPhase
    message: str = ""


def conditions(metric: Metric) -> tuple[str, ...]:
    """Return the expressions to evaluate, the failure condition first; empty without any."""
    return tuple(filter(None, (metric.failure_condition, metric.success_condition)))


def by_conditions(metric: Metric, true: int) -> MeasurementResult:
    """Return the verdict of conditions: `true` is the number of the first true one, or -1.

    A value that neither condition is true of is inconclusive; of a single condition the opposite
    is concluded.
    """
    if true >= 0:
        failure = true == 0 and bool(metric.failure_condition)
        return MeasurementResult(AnalysisPhase.FAILED if failure else AnalysisPhase.SUCCESSFUL)
    if metric.failure_condition and metric.success_condition:
        return MeasurementResult(AnalysisPhase.INCONCLUSIVE, "neither condition is true")
    failure = not metric.failure_condition
    return MeasurementResult(AnalysisPhase.FAILED if failure else AnalysisPhase.SUCCESSFUL)


def by_range(accepted: ThresholdRange, value: Any) -> MeasurementResult:
    """Return the verdict of a range about a number, or about each number of a list.

    A value without a number is an error: no data is neither good nor bad.
    """
    numbers: Sequence[Any] = value if isinstance(value, list) else [value]
    if why := without_number(value):
        return MeasurementResult(AnalysisPhase.ERROR, why)
    if not all(map(_is_number, numbers)):
        return MeasurementResult(AnalysisPhase.ERROR, "the value is not a number")
    return MeasurementResult(
        AnalysisPhase.SUCCESSFUL if all(map(accepted.accepts, numbers)) else AnalysisPhase.FAILED
    )


def without_number(value: Any) -> str:
    """Return why a value has nothing to compare: an empty list, NaN or an infinity; "" otherwise.

    Both are what a query gives without traffic.
    """
    if value == []:
        return "there is no value"
    numbers = value if isinstance(value, list) else [value]
    odd = [n for n in numbers if isinstance(n, float) and not math.isfinite(n)]
    return f"{_ODD[str(odd[0])]} is not a number to compare" if odd else ""


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def add(metric: Metric, result: MetricResult, taken: Measurement) -> MetricResult:
    """Return the result with one more measurement, assessed again."""
    name = _COUNTED[taken.phase]
    errors = result.consecutive_error + 1 if taken.phase is AnalysisPhase.ERROR else 0
    more: dict[str, Any] = {name: getattr(result, name) + 1, "consecutive_error": errors}
    kept = (*result.measurements, taken)[-MEASUREMENTS_MAX:]
    counted = replace(result, measurements=kept, **more)
    phase, message = assess(metric, counted)
    return replace(counted, phase=phase, message=message)


def assess(metric: Metric, result: MetricResult) -> tuple[AnalysisPhase, str]:
    """Return the phase that follows from the counts, and why, once it is not a success."""
    for phase, number, limit, word in (
        (AnalysisPhase.FAILED, result.failed, metric.failure_limit, "failed"),
        (
            AnalysisPhase.INCONCLUSIVE,
            result.inconclusive,
            metric.inconclusive_limit,
            "inconclusive",
        ),
        (
            AnalysisPhase.ERROR,
            result.consecutive_error,
            metric.consecutive_error_limit,
            "errors in a row",
        ),
    ):
        if number > limit:
            return phase, f"{number} {word}, and the limit is {limit}"
    if result.count >= metric.count:
        return AnalysisPhase.SUCCESSFUL, ""
    return (AnalysisPhase.RUNNING if result.taken else AnalysisPhase.PENDING), ""
