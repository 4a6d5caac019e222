"""What objects of the cluster ask for, done while a process runs: units come, change and go."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import replace
from datetime import timedelta
from functools import partial
from typing import Final

from gitkruise.errors import ApiError, SourceFailed
from gitkruise.gitops.custom.declared import Reading, name_of
from gitkruise.gitops.custom.keeper import Keeper
from gitkruise.gitops.custom.watching import CustomResources
from gitkruise.gitops.farewell import Departed, Farewell
from gitkruise.gitops.fleet import Fleet
from gitkruise.gitops.makeup import sink_of, source_of
from gitkruise.gitops.reporter import removal_of
from gitkruise.kube.clock import Clock, wait_for
from gitkruise.model.config import Config, Unit
from gitkruise.model.record import Removal, UnitRecord
from gitkruise.model.states import State
from gitkruise.planner.sync.marks import wish_to_look
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get

log = logging.getLogger(__name__)
SETTLE_S: Final = 0.2  # objects that come together are taken in together
SETTLE_MAX_S: Final = 1.0
AGAIN: Final = timedelta(seconds=30)  # for what could not be made


class Steward:
    """Turns objects into what runs. `begin` once, then `run`."""

    def __init__(
        self, base: Config, resources: CustomResources, reading: Reading, keeper: Keeper,
        clock: Clock,
    ) -> None:  # fmt: skip
        self._base, self._resources, self._clock = base, resources, clock
        self._reading, self._keeper = reading, keeper
        self._ending: dict[str, Removal] = {}  # by uid: how a unit ends, while that is seen to
        self._handled: dict[str, str] = {}  # by uid: the last wish to look again
        self._unheld = False  # a finalizer could not be set

    def begin(self) -> Config:
        """What is to run at the start, before an engine is chosen."""
        if not self._resources.complete:
            return self._base
        return self._reading.read(self._resources.objects(), "").config

    async def run(self, fleet: Fleet, farewell: Farewell, engine: str) -> None:
        """Follow the objects until cancelled."""
        self._resources.changed.set()
        while True:
            troubled = bool(fleet.troubles) or self._unheld
            await wait_for(self._resources.changed, self._clock, AGAIN if troubled else None)
            await self._clock.sleep(SETTLE_S)
            self._resources.changed.clear()
            began = self._clock.monotonic()
            if self._resources.complete:
                await self._take(fleet, farewell, engine)
            took = self._clock.monotonic() - began
            await self._clock.sleep(min(took, SETTLE_MAX_S))

    async def _take(self, fleet: Fleet, farewell: Farewell, engine: str) -> None:
        await self._hold(self._resources.objects())
        objects = self._resources.objects()
        declared = self._reading.read(objects, engine)
        records = {name: reporter.record for name, reporter in fleet.reporters.items()}
        lame = [name for kind, name in declared.broken if kind == "Unit"]
        await fleet.become(declared.config, lame=lame)
        self._keeper.changed(declared, fleet)
        for obj, unit in declared.leaving:
            await self._end(obj, unit, records, (fleet, farewell))
        there = {obj["metadata"]["uid"] for obj in objects}
        self._ending = {uid: end for uid, end in self._ending.items() if uid in there}
        self._handled = {uid: wish for uid, wish in self._handled.items() if uid in there}
        for obj in objects:
            self._look_again(obj, fleet)

    async def _hold(self, objects: list[Obj]) -> None:
        """A unit is driven once it cannot vanish without a farewell."""
        self._unheld = False
        async with asyncio.TaskGroup() as tasks:
            for obj in objects:
                if obj["kind"] == "Unit" and not get(obj, "metadata", "deletionTimestamp"):
                    tasks.create_task(self._guarded(obj, "hold"))

    async def _guarded(self, obj: Obj, verb: str) -> None:
        try:
            await (self._resources.hold(obj) if verb == "hold" else self._resources.release(obj))
        except ApiError as error:
            log.warning("%s %s: its finalizer is not written: %s", *name_of(obj), error)
            self._unheld = True

    # Ends -----------------------------------------------------------------------------------

    async def _end(
        self,
        obj: Obj,
        unit: Unit | None,
        records: dict[str, UnitRecord],
        having: tuple[Fleet, Farewell],
    ) -> None:
        """See a unit off, as its spec says. Of one that was never understood nothing is known."""
        fleet, farewell = having
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
            cluster=fleet.cluster,
            source="",
            state=State.UNKNOWN,
            message="",
            since=self._clock.now(),
        )
        farewell.add(
            Departed(
                record=replace(record, removal=removal),
                offer=self._keeper.leaving,
                forget=partial(self._forget, obj, unit, fleet),
                source=source_of(unit),
            )
        )

    async def _forget(
        self, obj: Obj, unit: Unit, fleet: Fleet, record: UnitRecord, why: str
    ) -> None:
        """Nothing is left to do: git hears of it, and the object may go. Raises ApiError."""
        outbox = fleet.outboxes.get(sink_of(unit))
        if outbox is not None:
            try:
                await outbox.forget(record, why)
            except SourceFailed as error:
                log.warning("that unit %s was deleted is not in git: %s", unit.id, error)
        log.info("unit %s: removed, %s", unit.id, why)
        current = self._resources.get(name_of(obj))
        if current is not None and current["metadata"]["uid"] == obj["metadata"]["uid"]:
            await self._resources.release(current)

    # Wishes ---------------------------------------------------------------------------------

    def _look_again(self, obj: Obj, fleet: Fleet) -> None:
        """The annotation that Flux calls requestedAt; its answer is lastHandledReconcileAt."""
        wish, uid = wish_to_look(obj), obj["metadata"]["uid"]
        told = get(obj, "status", "lastHandledReconcileAt", default="")
        if not wish or wish in {told, self._handled.get(uid)}:
            return
        self._handled[uid] = wish
        kind, name = name_of(obj)
        if kind == "GitSource":
            fleet.look_again("", name)
        elif kind == "Unit" and name in fleet.units:
            fleet.look_again(name, source_of(fleet.units[name].unit))
