"""Controller of the custom resources: units start, change and stop while the process runs."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final, NamedTuple

from gitkruise.errors import ApiError, Concern, Crashed, SourceFailed
from gitkruise.gitops.cluster.engine import Engine
from gitkruise.gitops.config.fingerprints import sink_of, source_of
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.reconcile.unit_reconciler import UnitReconciler
from gitkruise.gitops.resources.declared import ResourceReader, name_of
from gitkruise.gitops.resources.informers import CustomResources
from gitkruise.gitops.resources.status_writer import StatusWriter
from gitkruise.gitops.runtime.finalizer import RemovedUnit, UnitFinalizer
from gitkruise.gitops.runtime.restore import left_alone_by
from gitkruise.gitops.runtime.supervisor import Supervisor
from gitkruise.gitops.source.poller import Polling
from gitkruise.gitops.status.unit_status import removal_of
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.config import Config, Unit
from gitkruise.model.gitops.record import Removal, UnitRecord
from gitkruise.model.gitops.shards import WHOLE, Shard
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.sync.annotations import left_alone, reconcile_request
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

log = logging.getLogger(__name__)
SETTLE_S: Final = 0.2  # objects that come together are taken in together
SETTLE_MAX_S: Final = 1.0
AGAIN: Final = timedelta(seconds=30)  # for what could not be made


class _Request(NamedTuple):
    """A request to reconcile, and what carries it out."""

    value: str
    polling: Polling | None
    unit: UnitReconciler | None


class ResourceController:
    """Turns objects into what runs. `begin` once, then `run`."""

    def __init__(
        self, base: Config, resources: CustomResources, reader: ResourceReader,
        writer: StatusWriter,
        clock: Clock, containment: Containment = UNREPORTED, *, shard: Shard = WHOLE,
    ) -> None:  # fmt: skip
        self._base, self._resources, self._clock = base, resources, clock
        self._reader, self._writer = reader, writer
        self._ending: dict[str, Removal] = {}  # by uid: how a unit ends, while that is seen to
        self._asked: dict[str, _Request] = {}  # by uid: the last request to reconcile
        self._unheld = False  # a finalizer could not be set
        self._containment, self._failures, self._shard = containment, 0, shard
        self._crashed = False  # an object could not be read, or what it asks for not be done

    async def begin(self) -> Config:
        """Return the configuration at the start, before an engine is chosen."""
        if not self._resources.complete:
            return self._base
        return (await self._reader.read(self._resources.objects(), "")).config

    async def run(self, supervisor: Supervisor, finalizer: UnitFinalizer, engine: Engine) -> None:
        """Follow the objects until cancelled."""
        self._resources.changed.set()
        while True:
            failing = bool(supervisor.errors) or self._unheld or self._crashed
            await wait_for(self._resources.changed, self._clock, AGAIN if failing else None)
            await self._clock.sleep(SETTLE_S)
            self._resources.changed.clear()
            began = self._clock.monotonic()
            await self._guarded_take(supervisor, finalizer, engine)
            took = self._clock.monotonic() - began
            await self._clock.sleep(min(took, SETTLE_MAX_S))

    async def _guarded_take(
        self, supervisor: Supervisor, finalizer: UnitFinalizer, engine: Engine
    ) -> None:
        """One that crashes is tried again after a growing pause; what runs goes on meanwhile."""
        try:
            with self._containment.of("custom resources"):
                await self._take(supervisor, finalizer, engine)
            self._failures = 0
        except Crashed:
            self._failures += 1
            pause = pause_s(self._failures, first_s=1.0, cap_s=300.0, seed="steward")
            await self._clock.sleep(pause)
            self._resources.changed.set()

    async def _take(self, supervisor: Supervisor, finalizer: UnitFinalizer, engine: Engine) -> None:
        if not self._resources.complete:  # what runs is of the file
            if supervisor.errors:
                await supervisor.reconcile(self._base)
            supervisor.errors.log_waiting(supervisor.hooks)
            return
        await self._hold(self._resources.objects())
        objects = self._resources.objects()
        declared = await self._reader.read(objects, engine.name)
        records = {name: reporter.record for name, reporter in supervisor.reporters.items()}
        suspended = [name for kind, name in declared.broken if kind == "Unit"]
        self._crashed = any(
            finding.concern is Concern.PROGRAM for finding in declared.broken.values()
        )
        await supervisor.reconcile(declared.config, suspended=suspended)
        supervisor.errors.log_waiting(supervisor.hooks, apart={name_of(obj) for obj in objects})
        self._writer.changed(declared, supervisor)
        for obj, unit in declared.leaving:
            if not self._shard.owns(name_of(obj)[1]):
                continue
            try:
                with self._containment.of(f"{' '.join(name_of(obj))}: its end"):
                    await self._end(obj, unit, records, supervisor, finalizer)
            except Crashed:
                self._crashed = True
        there = {obj["metadata"]["uid"] for obj in objects}
        self._ending = {uid: end for uid, end in self._ending.items() if uid in there}
        self._asked = {uid: asked for uid, asked in self._asked.items() if uid in there}
        for obj in objects:
            self._look_again(obj, supervisor)

    async def _hold(self, objects: list[Obj]) -> None:
        """A unit is driven once it cannot vanish without a farewell."""
        self._unheld = False
        async with asyncio.TaskGroup() as tasks:
            for obj in objects:
                leaving = get(obj, "metadata", "deletionTimestamp")
                if obj["kind"] == "Unit" and not leaving and self._shard.owns(name_of(obj)[1]):
                    tasks.create_task(self._guarded(obj, "hold"))

    async def _guarded(self, obj: Obj, verb: str) -> None:
        act = self._resources.hold if verb == "hold" else self._resources.release
        try:
            with self._containment.of(f"{' '.join(name_of(obj))}: its finalizer"):
                await act(obj)
        except (ApiError, Crashed) as error:
            log.warning(
                log_line("finalizer-not-written", object="/".join(name_of(obj)), error=error)
            )
            self._unheld = True

    # Ends -----------------------------------------------------------------------------------

    async def _end(
        self,
        obj: Obj,
        unit: Unit | None,
        records: dict[str, UnitRecord],
        supervisor: Supervisor,
        finalizer: UnitFinalizer,
    ) -> None:
        """See a unit off, as its spec says. Of one that was never understood nothing is known."""
        uid = obj["metadata"]["uid"]
        if unit is None:
            if uid not in self._ending:
                await self._guarded(obj, "release")
            return
        removal = removal_of(unit)
        if unit.spec.suspended(self._clock.now()) is not None:
            removal = replace(removal, policy="Orphan")  # left alone, to the last
        if self._ending.get(uid) == removal:
            return
        self._ending[uid] = removal
        record = records.get(unit.id) or UnitRecord(
            unit=unit.id,
            cluster=supervisor.cluster,
            source="",
            state=State.UNKNOWN,
            message="",
            since=self._clock.now(),
        )
        seen = {o.key: why for o in record.objects if (why := left_alone(o.message))}
        finalizer.add(
            RemovedUnit(
                record=replace(record, removal=removal),
                offer=self._writer.leaving,
                forget=partial(self._forget, obj, unit, supervisor),
                source=source_of(unit),
                spared=seen
                if record.objects
                else left_alone_by(supervisor.branch_files.values(), unit.id),
            )
        )

    async def _forget(
        self, obj: Obj, unit: Unit, supervisor: Supervisor, record: UnitRecord, why: str
    ) -> None:
        """Nothing is left to do: git records it, and the object may go. Raises ApiError."""
        outbox = supervisor.outboxes.get(sink_of(unit))
        if outbox is not None:
            try:
                await outbox.forget(record, why)
            except SourceFailed as error:
                log.warning(log_line("unit-removal-not-recorded", unit=unit.id, error=error))
        log.info(log_line("unit-removed", unit=unit.id, why=why))
        current = self._resources.get(name_of(obj))
        if current is not None and current["metadata"]["uid"] == obj["metadata"]["uid"]:
            await self._resources.release(current)

    # Requests to reconcile ------------------------------------------------------------------

    def _look_again(self, obj: Obj, supervisor: Supervisor) -> None:
        """The annotation that Flux calls requestedAt: poll the source, then run a round.

        lastHandledReconcileAt confirms it once both have ended. An object that does not run was
        looked at just now. A request is passed on again when its unit or polling was replaced.
        """
        request, uid = reconcile_request(obj), obj["metadata"]["uid"]
        handled = get(obj, "status", "lastHandledReconcileAt", default="")
        if not request or request == handled or get(obj, "metadata", "deletionTimestamp"):
            return
        kind, name = name_of(obj)
        unit = supervisor.units.get(name) if kind == "Unit" else None
        source = source_of(unit.unit) if unit is not None else name if kind == "GitSource" else ""
        asked = _Request(request, supervisor.pollings.get(source), unit)
        if self._asked.get(uid) == asked:
            return
        self._asked[uid] = asked
        if kind == "Unit" and not self._shard.owns(name):
            return
        done = partial(self._writer.confirm, obj, request)

        def polled() -> None:
            if unit is None:
                done()
            else:
                follower = supervisor.followers.get(source)
                unit.look_again(follower.followed if follower is not None else "", done)

        if asked.polling is None:
            polled()
        else:
            asked.polling.look_for(polled)
