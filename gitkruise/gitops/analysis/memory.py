"""Runs of measurements, remembered in the cluster: a restart continues their counts.

Records of the status branch are no memory: a user who may push the branch could forge a success.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any, Final

import msgspec

from gitkruise.errors import Forbidden
from gitkruise.gitops.cluster.lease_annotation import LeaseMemory
from gitkruise.model.gitops.analysis import AnalysisRun
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
ANALYSIS: Final = "gitkruise.io/analysis"  # annotation: the newest run of each unit
BYTES_MAX: Final = 200_000  # of all runs; all annotations of an object have 262144
_KEPT: Final = 3  # measurements of each metric; the counts are always whole


class AnalysisMemory(LeaseMemory[dict[str, Any]]):
    """The newest run of each unit, shared by the units of a process.

    `problem` says so where the memory lasts only as long as the process.
    """

    kind = dict
    problem = ""  # why runs are lost with the process

    @property
    def term(self) -> int:
        """Return the term of this process, in which no other process writes runs."""
        return self._authority.term

    async def read(self, unit: str) -> AnalysisRun | None:
        """Return the newest run of a unit; None without a readable one. Raises ApiError."""
        async with self._turn:
            await self._read()
            try:
                return msgspec.convert(self._known[unit], AnalysisRun)
            except (KeyError, msgspec.ValidationError):
                return None

    async def write(self, unit: str, run: AnalysisRun) -> None:
        """Remember a run. Raises ApiError; then it is not remembered."""
        results = tuple(replace(one, measurements=one.measurements[-_KEPT:]) for one in run.metrics)
        raw = msgspec.to_builtins(replace(run, metrics=results))
        async with self._turn:
            await self._read()
            await self._change(lambda known: _bounded({**known, unit: raw}))

    def _answered(self, error: Forbidden | None) -> None:
        if error is not None and not self.problem:
            effect = "counted from zero after a restart"
            log.warning(log_line("analysis-not-remembered", effect=effect, error=error.message))
        why = "a restart of gitkruise begins it again: it may not write its Lease"
        self.problem = why if error is not None else ""


def _bounded(runs: dict[str, Any]) -> dict[str, Any]:
    """Return the runs without the oldest finished ones, as many as are too much together."""
    size = {name: len(msgspec.json.encode(run)) for name, run in runs.items()}
    total = sum(size.values())
    ended = sorted((str(run["finished"]), n) for n, run in runs.items() if run.get("finished"))
    for _, name in ended:
        if total <= BYTES_MAX:
            break
        total -= size[name]
        del runs[name]
    return runs
