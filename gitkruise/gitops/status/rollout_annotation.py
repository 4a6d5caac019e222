"""The short status on live rollouts: `held 4/10 4f2c1ab`, written when a state changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace
from datetime import timedelta

from gitkruise.errors import ApiError, NotLeading, Retry
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.kube.client.limits import is_logged, pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.planner.sync.annotations import COMMIT, ROLLOUT, STATUS_MANAGER, annotation
from gitkruise.printable import visible
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import merge_request

log = logging.getLogger(__name__)


def rollout_text(rollout: Rollout, commit: str) -> str:
    """Return the text; counts only in settled states, so that moving pods cause no writes."""
    counts = f" {rollout.updated}/{rollout.replicas}" if rollout.state in SETTLED else ""
    return f"{rollout.state.lower()}{counts} {visible(commit[:7])}".strip()


def annotated_stuck(obj: Obj, rollout: Rollout) -> bool:
    """Return whether the annotation of a rolling workload calls its rollout Stuck: the process that
    observed it knew for how long no pod has moved."""
    if rollout.state is not State.ROLLING or not rollout.generation_seen:
        return False
    stuck = replace(rollout, state=State.STUCK)
    return annotation(obj, ROLLOUT) == rollout_text(stuck, annotation(obj, COMMIT))


class Annotator:
    """Keeps the annotation of every rollout in step with its record."""

    def __init__(self, live: LiveView, clock: Clock) -> None:
        self._live, self._clock = live, clock
        self._wanted: dict[ObjectKey, str] = {}
        self._wake = asyncio.Event()

    def offer(self, record: UnitRecord) -> None:
        """Queue the annotations of a record."""
        for rollout in record.rollouts:
            obj = self._live.store.get(rollout.key)
            if obj is None or not rollout.generation_seen or rollout.state is State.UNKNOWN:
                continue
            text = rollout_text(rollout, annotation(obj, COMMIT))
            self._wanted[rollout.key] = text
            self._wake.set()

    async def run(self) -> None:
        """Write until cancelled. A final rejection is only logged: the annotation is a cache of the
        record. What may pass is tried again, after pauses that grow."""
        sweeps, due = 0, 0.0  # in a row after which some wait, and when these are written again
        resting: set[ObjectKey] = set()
        while True:
            left = timedelta(seconds=max(due - self._clock.monotonic(), 0)) if resting else None
            if not await wait_for(self._wake, self._clock, left):
                resting = set()
            self._wake.clear()
            failed = await self._sweep(resting)
            if failed and not resting:
                sweeps += 1
                due = self._clock.monotonic() + _pause_s(sweeps, list(failed.values()))
            resting |= failed.keys()
            sweeps = sweeps if resting else 0

    async def _sweep(self, resting: AbstractSet[ObjectKey]) -> dict[ObjectKey, ApiError]:
        """Write all that is wanted of objects not `resting`; return the errors that may pass."""
        failed = {}
        for key in [key for key in self._wanted if key not in resting]:
            text, obj = self._wanted[key], self._live.store.get(key)
            try:
                if obj is not None and annotation(obj, ROLLOUT) != text:
                    await self._write(key, text)
            except ApiError as error:
                if error.retry is not Retry.NEVER:
                    failed[key] = error
                    continue
                log.warning(log_line("rollout-annotation-not-written", object=key, error=error))
            if self._wanted[key] == text:  # no newer one was offered meanwhile
                del self._wanted[key]
        return failed

    async def _write(self, key: ObjectKey, text: str) -> None:
        kind = self._live.catalog.stored(key.group_kind)
        if kind is None:
            return
        body = {"metadata": {"annotations": {ROLLOUT: text}}}
        request = merge_request(kind.ref, key.name, body, STATUS_MANAGER, namespace=key.namespace)
        reply = await self._live.transport.send(request)
        self._live.store.note_write(reply.body)


def _pause_s(sweeps: int, failed: Sequence[ApiError]) -> float:
    """Return the pause after writes failed, and log why, unless another process leads."""
    if is_logged(sweeps) and not isinstance(failed[0], NotLeading):
        log.warning(log_line("rollout-annotations-wait", objects=len(failed), error=failed[0]))
    return pause_s(sweeps, first_s=0.5, cap_s=30.0, seed=ROLLOUT)
