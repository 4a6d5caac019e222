"""The short status on live rollouts: `held 4/10 4f2c1ab`, written when a state changes."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
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
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest

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
        failed: dict[ObjectKey, tuple[str, ApiError]] = {}
        sweeps, due = 0, 0.0  # how often in a row some failed, and when they are written again
        while True:
            left = timedelta(seconds=max(due - self._clock.monotonic(), 0)) if failed else None
            if not await wait_for(self._wake, self._clock, left):
                self._wanted = {key: text for key, (text, _) in failed.items()} | self._wanted
                failed = {}
            self._wake.clear()
            new = await self._sweep()
            if new and not failed:
                sweeps += 1
                due = self._clock.monotonic() + _pause_s(sweeps, new)
            failed |= new
            sweeps = sweeps if failed else 0

    async def _sweep(self) -> dict[ObjectKey, tuple[str, ApiError]]:
        """Write all that is wanted; return what failed and may pass, with the errors."""
        failed = {}
        while self._wanted:
            key, text = self._wanted.popitem()
            obj = self._live.store.get(key)
            if obj is None or annotation(obj, ROLLOUT) == text:
                continue
            try:
                await self._write(key, text)
            except ApiError as error:
                if error.retry is Retry.NEVER:
                    log.warning(log_line("rollout-annotation-not-written", object=key, error=error))
                else:
                    failed[key] = text, error
        return failed

    async def _write(self, key: ObjectKey, text: str) -> None:
        kind = self._live.catalog.stored(key.group_kind)
        if kind is None:
            return
        request = ApiRequest(
            verb="patch",
            resource=kind.ref,
            namespace=key.namespace,
            name=key.name,
            body={"metadata": {"annotations": {ROLLOUT: text}}},
            content_type=MERGE_PATCH,
            params={"fieldManager": STATUS_MANAGER},
        )
        reply = await self._live.transport.send(request)
        self._live.store.note_write(reply.body)


def _pause_s(sweeps: int, failed: Mapping[ObjectKey, tuple[str, ApiError]]) -> float:
    """Return the pause after writes failed, and log why, unless another process leads."""
    error = next(iter(failed.values()))[1]
    if is_logged(sweeps) and not isinstance(error, NotLeading):
        log.warning(log_line("rollout-annotations-wait", objects=len(failed), error=error))
    return pause_s(sweeps, first_s=0.5, cap_s=30.0, seed=ROLLOUT)
