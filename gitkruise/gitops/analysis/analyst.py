"""The measurements of one unit's promotion: those that are due are taken, judged and remembered."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.errors import ApiError, DiagnosticError, Unavailable
from gitkruise.gitops.analysis.jobs import end_job, verdict_of_job
from gitkruise.gitops.analysis.memory import AnalysisMemory
from gitkruise.gitops.analysis.providers import value_of, value_text
from gitkruise.gitops.build.untrusted import Workers
from gitkruise.gitops.cluster.impersonation import account_of, acting_as
from gitkruise.gitops.http_get import Access, Fetch, fetch
from gitkruise.gitops.source.repositories import read_secret
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.analysis import (
    AnalysisPhase,
    AnalysisRun,
    Measurement,
    Metric,
    MetricResult,
    run_mark,
)
from gitkruise.model.gitops.config import Reference, Unit
from gitkruise.planner.analysis.schedule import begin, due_at, leave, next_due, with_measurement
from gitkruise.planner.analysis.verdict import (
    MeasurementResult,
    by_conditions,
    by_range,
    conditions,
    without_number,
)
from gitkruise.wire.primitives.times import RetryPause

JOB_PAUSE: Final = timedelta(seconds=5)  # between two looks at a Job that runs
RESTARTED: Final = "counted from the start of gitkruise: no earlier measurement is known"
CHANGED: Final = "counted from zero again: the metrics have changed"


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredStep:
    """A step (from 1) of a workload (by uid and name) that is to be measured, on a revision.

    `pods` is how many pods are on the revision now; `arrived` says that this process saw the
    rollout arrive at the step, so that no measurement can have been taken before.
    """

    uid: str
    name: str
    namespace: str
    revision: str
    step: int
    metrics: tuple[Metric, ...]
    pods: int
    arrived: bool

    @property
    def mark(self) -> str:
        """Return the mark of its run."""
        return run_mark(self.uid, self.revision, self.step, self.metrics)

    @property
    def variables(self) -> Mapping[str, str]:
        """Return the variables of queries and URLs."""
        return {"namespace": self.namespace, "target": self.name, "revision": self.revision}


class Analyst:
    """Takes measurements for one unit, and keeps its newest run."""

    def __init__(
        self,
        unit: Unit,
        transport: Transport,
        clock: Clock,
        *,
        workers: Workers,
        memory: AnalysisMemory,
        fetch: Fetch = fetch,
    ) -> None:
        self._unit, self._clock, self._workers = unit, clock, workers
        self._transport = acting_as(account_of(unit), transport)
        self._memory, self._fetch = memory, fetch
        self._term = -1  # in which the run was read
        self._remembered: AnalysisRun | None = None
        self.run: AnalysisRun | None = None

    def run_of(self, subject: MeasuredStep) -> AnalysisRun | None:
        """Return the run about a subject; None before it began or was read."""
        run = self.run
        return run if run is not None and run.mark == subject.mark and not run.left else None

    async def load(self) -> None:
        """Read the run of an earlier process. Raises ApiError."""
        term = self._memory.term
        if self._term != term:
            self.run = self._remembered = await self._memory.read(self._unit.id)
            self._term = term

    async def measure(self, subject: MeasuredStep) -> timedelta | None:
        """Take what is due; return how long there is nothing to measure, None without end.

        Raises ApiError when the run cannot be remembered; the measurements are kept for the next
        try.
        """
        await self.load()
        before = self.run_of(subject)
        run = before or self._begin(subject)
        run = replace(run, pods=max(run.pods, subject.pods))
        due = [
            (metric, result)
            for metric, result in zip(subject.metrics, run.metrics, strict=True)
            if _is_due(metric, result, run, self._clock.now())
        ]
        async with asyncio.TaskGroup() as group:
            taken = [group.create_task(self._take(m, r, run, subject)) for m, r in due]
        for (metric, _), task in zip(due, taken, strict=True):
            measurement = task.result()
            if measurement is not None and not run.phase.completed:
                run = with_measurement(metric, run, measurement)
        await self._keep(run)
        if run.phase.completed:
            if before is None or not before.phase.completed:
                await self._end_jobs(subject.metrics, run)
            return None
        following = next_due(subject.metrics, run)
        assert following is not None, "a run without an end has a next measurement"
        pause = following - self._clock.now()
        return pause if pause > timedelta() else JOB_PAUSE

    async def leave(self, revision: str, step: int) -> None:
        """Close the run of another revision or step: the rollout has left it. Raises ApiError."""
        run = self.run
        if run is None or run.left or (run.revision, run.step) == (revision, step):
            return
        await self._keep(leave(run, self._clock.now().replace(microsecond=0)))
        if not run.phase.completed and self._unit.spec.promotion is not None:
            await self._end_jobs(self._unit.spec.promotion.metrics, run)

    def _begin(self, subject: MeasuredStep) -> AnalysisRun:
        """Return a new run, with a note where it counts again or could be lost."""
        known, note = self.run, "" if subject.arrived else RESTARTED
        same = (subject.uid, subject.revision, str(subject.step))
        if known is not None and not known.left and tuple(known.mark.split("/")[:3]) == same:
            note = CHANGED
        now = self._clock.now().replace(microsecond=0)  # as precise as records
        metrics = subject.metrics
        return begin(subject.mark, subject.revision, subject.step, metrics, now, note)

    async def _keep(self, run: AnalysisRun) -> None:
        self.run = run
        if run == self._remembered:
            return
        await self._memory.write(self._unit.id, run)
        if self._memory.problem and not run.note:
            self.run = run = replace(run, note=self._memory.problem)
        self._remembered = run

    async def _take(
        self, metric: Metric, result: MetricResult, run: AnalysisRun, subject: MeasuredStep
    ) -> Measurement | None:
        """Take one measurement; None while its Job runs. No error of it leaves this method."""
        access, text = Access(), ""
        try:
            if metric.provider.job is not None:
                verdict = await verdict_of_job(
                    self._transport, self._unit, metric, run, result.taken
                )
            else:
                access = await self._access(metric)
                value = await value_of(
                    metric.provider, subject.variables, access, self._fetch,
                    guarded=self._unit.custom,
                )  # fmt: skip
                text = value_text(value)
                verdict = await self._judged(metric, value)
        except ApiError as error:
            verdict = MeasurementResult(AnalysisPhase.ERROR, error.message)
        except DiagnosticError as error:
            verdict = MeasurementResult(
                AnalysisPhase.ERROR, f"{error.findings[0].code}: {error.findings[0].message}"
            )
        if verdict is None:
            return None
        return Measurement(
            at=self._clock.now(),
            phase=verdict.phase,
            value=access.cover(text),
            message=access.cover(verdict.message),
        )

    async def _access(self, metric: Metric) -> Access:
        """Read the Secret of a metric with the unit's rights. Raises ApiError, UsageProblem."""
        name = metric.provider.secret
        if not name:
            return Access()
        data, where = await read_secret(Reference(name), self._unit.namespace, self._transport)
        if not {"bearerToken", "password", "ca.crt"} & data.keys():
            raise Unavailable(f"the Secret {where} has no password, no bearerToken and no ca.crt")
        return Access(data)

    async def _judged(self, metric: Metric, value: Any) -> MeasurementResult:
        if metric.threshold_range is not None:
            return by_range(metric.threshold_range, value)
        texts = conditions(metric)
        if not texts:
            return MeasurementResult(AnalysisPhase.SUCCESSFUL)
        (found,) = await self._workers.judge([(texts, {"result": value})], strict=True)
        if found.why:
            why = without_number(value) or found.why
            return MeasurementResult(AnalysisPhase.ERROR, f"{texts[found.number]}: {why}")
        return by_conditions(metric, found.number)

    async def _end_jobs(self, metrics: Sequence[Metric], run: AnalysisRun) -> None:
        """Delete Jobs that still run when the run has ended. Raises ApiError."""
        results = {result.name: result for result in run.metrics}
        for metric in metrics:
            result = results.get(metric.name)
            if metric.provider.job is not None and result and not result.phase.completed:
                await end_job(self._transport, self._unit, metric, run, result.taken)


def _is_due(metric: Metric, result: MetricResult, run: AnalysisRun, now: datetime) -> bool:
    due = due_at(metric, result, run.started)
    if run.phase.completed or due is None:
        return False
    since = result.measurements[-1].at if result.measurements else run.started
    return not RetryPause(since, due).rests(now)
