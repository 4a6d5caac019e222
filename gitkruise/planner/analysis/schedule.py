"""Times of measurements, and the verdict of a run from those of its metrics."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from gitkruise.model.gitops.analysis import (
    AnalysisPhase,
    AnalysisRun,
    Measurement,
    Metric,
    MetricResult,
)
from gitkruise.planner.analysis.verdict import add
from gitkruise.printable import many

ERROR_PAUSE: Final = timedelta(seconds=10)  # after an error of a metric without an interval
# A run is the worst of its metrics.
_WORST: Final = (AnalysisPhase.FAILED, AnalysisPhase.ERROR, AnalysisPhase.INCONCLUSIVE)


def begin(
    mark: str, revision: str, step: int, metrics: Iterable[Metric], now: datetime, note: str = ""
) -> AnalysisRun:
    """Return a run without any measurement."""
    results = tuple(MetricResult(name=metric.name) for metric in metrics)
    return AnalysisRun(
        mark=mark, revision=revision, step=step, started=now, metrics=results, note=note
    )


def due_at(metric: Metric, result: MetricResult, started: datetime) -> datetime | None:
    """Return when the next measurement of a metric is to be taken; None when it is completed."""
    if result.phase.completed:
        return None
    if not result.measurements:
        return started + metric.delay
    last = result.measurements[-1]
    pause = metric.pause
    if not pause and last.phase is AnalysisPhase.ERROR:
        pause = ERROR_PAUSE
    return last.at + pause


def next_due(metrics: Sequence[Metric], run: AnalysisRun) -> datetime | None:
    """Return when the next measurement of a run is to be taken; None when it is completed."""
    if run.phase.completed:
        return None
    times = (due_at(m, r, run.started) for m, r in zip(metrics, run.metrics, strict=True))
    return min(filter(None, times), default=None)


def with_measurement(metric: Metric, run: AnalysisRun, taken: Measurement) -> AnalysisRun:
    """Return the run with one more measurement of one of its metrics."""
    results = tuple(
        add(metric, result, taken) if result.name == metric.name else result
        for result in run.metrics
    )
    phase, message = _assess(results)
    finished = taken.at if phase.completed else None
    return replace(run, metrics=results, phase=phase, message=message, finished=finished)


def leave(run: AnalysisRun, now: datetime) -> AnalysisRun:
    """Return the run of a step that the rollout has left; without an end it is inconclusive."""
    if run.phase.completed:
        return replace(run, left=True)
    why = "the rollout left the step before the measurements ended"
    phase = AnalysisPhase.INCONCLUSIVE
    return replace(run, left=True, phase=phase, message=why, finished=now)


def _assess(results: Sequence[MetricResult]) -> tuple[AnalysisPhase, str]:
    """Return the phase of a run, and which metric is the reason."""
    for phase in _WORST:
        worst = next((r for r in results if r.phase is phase), None)
        if worst is not None:
            last = worst.measurements[-1] if worst.measurements else None
            value = f"; the last value is {last.value}" if last is not None and last.value else ""
            why = f" ({last.message})" if last is not None and last.message else ""
            return phase, f"{worst.name}: {worst.message}{value}{why}"
    if all(r.phase is AnalysisPhase.SUCCESSFUL for r in results):
        return AnalysisPhase.SUCCESSFUL, ""
    return AnalysisPhase.RUNNING, ""


def blocks(run: AnalysisRun) -> str:
    """Return why the promotion does not go on by a run; "" when it is successful."""
    if run.phase is AnalysisPhase.SUCCESSFUL:
        return ""
    if run.phase.completed:
        word = "ended in an error" if run.phase is AnalysisPhase.ERROR else run.phase.lower()
        verb = (
            "is" if run.phase is AnalysisPhase.INCONCLUSIVE else "has" if word == "failed" else ""
        )
        verdict = " ".join(filter(None, (verb, word)))
        seen = f", with {many(run.pods)} on revision {run.revision}" if run.pods else ""
        return f"the analysis {verdict}: {run.message}{seen}"
    return f"it is measured: {progress_of(run)}"


def progress_of(run: AnalysisRun) -> str:
    """Return the counts of each metric: `error-rate 2 successful, 1 failed; smoke pending`."""
    return "; ".join(f"{result.name} {counts_of(result)}" for result in run.metrics)


def counts_of(result: MetricResult) -> str:
    """Return the counts of a metric in words; `pending` without a measurement."""
    counts = (
        (result.successful, "successful"), (result.failed, "failed"),
        (result.inconclusive, "inconclusive"), (result.error, "without an answer"),
    )  # fmt: skip
    return ", ".join(f"{n} {word}" for n, word in counts if n) or "pending"
