"""The short status on live rollouts: `held 4/10 4f2c1ab`, written when a state changes."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace

from gitkruise.errors import ApiError
from gitkruise.gitops.cluster.live_cache import LiveView
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

    def __init__(self, live: LiveView) -> None:
        self._live = live
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
        """Write until cancelled. A rejection is only logged: the annotation is a cache of the
        record."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._wanted:
                key, text = self._wanted.popitem()
                obj = self._live.store.get(key)
                if obj is not None and annotation(obj, ROLLOUT) != text:
                    await self._write(key, text)

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
        try:
            reply = await self._live.transport.send(request)
        except ApiError as error:
            log.warning(log_line("rollout-annotation-not-written", object=key, error=error))
            return
        self._live.store.note_write(reply.body)
