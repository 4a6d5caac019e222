"""A benchmark's clock: CPU seconds of this process, and a yardstick for the machine's mood."""

from __future__ import annotations

import gc
import json
import sys
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import CodeType, FrameType
from typing import Any, Final

REPEATS: Final = 3
_YARD: Final = 20_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One measured figure. `limit` is the goal: at most, or at least when `least`."""

    name: str
    value: float
    unit: str
    limit: float | None = None
    least: bool = False

    def __str__(self) -> str:
        text = f"{self.name:<52}{self.value:>12,.2f} {self.unit:<12}"
        if self.limit is None:
            return text.rstrip()
        met = self.value >= self.limit if self.least else self.value <= self.limit
        word = "at least" if self.least else "at most"
        return f"{text}{word} {self.limit:,g}: {'met' if met else 'MISSED'}"


Work = Callable[[], Any]
# Figures that do not depend on the machine come from another meter (bench.calls).
METER: Final[ContextVar[Callable[[Work], float] | None]] = ContextVar("meter", default=None)


def cpu(work: Work, *, repeats: int = REPEATS) -> float:
    """CPU seconds `work` takes at its best; the collector runs before, not only because of us.

    Under another METER, one measurement of that meter.
    """
    meter = METER.get()
    if meter is not None:
        return meter(work)
    best = float("inf")
    for _ in range(repeats):
        gc.collect()
        start = time.process_time()
        work()
        best = min(best, time.process_time() - start)
    return best


def calls_of(work: Work, *, of: CodeType | None = None) -> int:
    """Return how many functions `work` calls in this thread: all of them, built-in ones included,
    or calls of the function with the code `of`."""
    count = 0

    def look(frame: FrameType, event: str, _arg: object) -> None:
        nonlocal count
        if of is None:
            count += event in {"call", "c_call"}
        else:
            count += event == "call" and frame.f_code is of

    before = sys.getprofile()
    sys.setprofile(look)
    try:
        work()
    finally:
        sys.setprofile(before)
    return count


def yard() -> float:
    """CPU seconds of a fixed piece of interpreter work, to compare runs on different days."""

    def work() -> None:
        for number in range(_YARD):
            made = {"name": f"web-{number}", "labels": {"app": "web"}, "spec": [number]}
            json.loads(json.dumps({**made, "more": sorted(made)}))

    return cpu(work)
