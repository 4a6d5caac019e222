"""Runs of measurements, remembered in the cluster: a restart continues their counts.

Records of the status branch are no memory: a user who may push the branch could forge a success.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

import msgspec

from gitkruise.errors import Forbidden
from gitkruise.gitops.cluster.lease_annotation import LeaseAnnotation
from gitkruise.gitops.cluster.write_authority import WriteAuthority
from gitkruise.model.gitops.analysis import AnalysisRun
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
ANALYSIS: Final = "gitkruise.io/analysis"  # annotation: the newest run of each unit
BYTES_MAX: Final = 200_000  # of all runs; all annotations of an object have 262144
_KEPT: Final = 3  # measurements of each metric; the counts are always whole


class AnalysisMemory:
    """The newest run of each unit, shared by the units of a process.

    The Lease is read in each term, because another process may have led before. Without the right
    to it the memory lasts as long as the process; `problem` says so.
    """

    def __init__(self, lease: LeaseAnnotation, authority: WriteAuthority) -> None:
        self._lease, self._authority = lease, authority
        self._term = -1
        self._known: Mapping[str, Any] = {}
        self._turn = asyncio.Lock()
        self.problem = ""  # why runs are lost with the process

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

    async def forget(self, unit: str) -> None:
        """Forget the run of a unit that has ended. Raises ApiError."""
        async with self._turn:
            await self._read()
            if unit in self._known:
                await self._change(lambda known: {n: r for n, r in known.items() if n != unit})

    async def _read(self) -> None:
        if self._term == self._authority.term:
            return
        try:
            self._known = _parsed(await self._lease.read())
            self.problem = ""
        except Forbidden as error:
            self._forbidden(error)
        self._term = self._authority.term

    async def _change(self, change: Callable[[Mapping[str, Any]], dict[str, Any]]) -> None:
        try:
            self._known = await self._lease.change(lambda value: change(_parsed(value)))
            self.problem = ""
        except Forbidden as error:
            self._forbidden(error)
            self._known = change(self._known)

    def _forbidden(self, error: Forbidden) -> None:
        if not self.problem:
            effect = "counted from zero after a restart"
            log.warning(log_line("analysis-not-remembered", effect=effect, error=error.message))
        self.problem = "a restart of gitkruise begins it again: it may not write its Lease"


def _parsed(value: Any) -> dict[str, Any]:
    """Return runs by unit; what is no mapping is not known."""
    runs = value if isinstance(value, dict) else {}
    return {unit: run for unit, run in runs.items() if isinstance(run, dict)}


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
