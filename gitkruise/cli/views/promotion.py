"""Progress of a promotion in words."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from gitkruise.cli.console.ages import ago
from gitkruise.planner.analysis.schedule import counts_of
from gitkruise.printable import many
from gitkruise.wire.primitives.times import format_duration

if TYPE_CHECKING:
    from gitkruise.model.gitops.analysis import AnalysisRun
    from gitkruise.model.gitops.promotion import PromotionRecord


def progress(promotion: PromotionRecord, now: datetime) -> str:
    """Return `step 1 of 3; partition 50% in 8m`, or the reason why the next step waits."""
    behind = f"step {promotion.step} of {promotion.steps}"
    onto = "all" if promotion.next in {"0", "0%"} else f"partition {promotion.next}"
    if promotion.offered:
        return f"{behind}; {onto} is proposed: {promotion.offered}"
    if promotion.why:
        return f"{behind}; not on to {onto}: {promotion.why}"
    if promotion.due is None or promotion.due - now < timedelta(seconds=1):
        return f"{behind}; {onto} is next"
    note = f" ({promotion.note})" if promotion.note else ""
    return f"{behind}; {onto} in {format_duration(promotion.due - now)}{note}"


def analysis_lines(run: AnalysisRun, now: datetime) -> Iterator[str]:
    """Yield the newest measurements: the run, then each metric with its last value."""
    when = f" {ago(run.finished, now)}" if run.finished is not None else ""
    why = f": {run.message}" if run.message else ""
    seen = f"; {many(run.pods)} had revision {run.revision}"
    yield f"measurements at step {run.step}: {run.phase}{when}{why}{seen}"
    for result in run.metrics:
        last = result.measurements[-1] if result.measurements else None
        value = f"; last {last.value or last.phase} {ago(last.at, now)}" if last else ""
        words = f" ({last.message})" if last and last.message else ""
        yield f"- {result.name}: {counts_of(result)}{value}{words}"
    if run.note:
        yield f"- {run.note}"
