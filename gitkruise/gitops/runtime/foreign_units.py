"""Units of other shards, as far as units of this one must know them.

An object may move from a unit of one shard to one of another in one commit. Neither replica asks
the other: what the git of a foreign unit wants is read here, from the same commit, once a unit of
this shard would delete an object or take one over. States for `dependsOn` come from `ShardStates`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta
from functools import partial
from typing import Final

from gitkruise.errors import ApiError, DiagnosticError
from gitkruise.gitops.build.builder import Builder, BuildRequest, built_commit
from gitkruise.gitops.build.post_build import gather
from gitkruise.gitops.cluster.impersonation import account_of, acting_as
from gitkruise.gitops.cluster.ownership import Unsettled
from gitkruise.gitops.cluster.shard_states import ShardStates, SharedState
from gitkruise.gitops.config.fingerprints import source_of
from gitkruise.gitops.reconcile.unit_cluster import UnitContext
from gitkruise.kube.system.clock import wait_for
from gitkruise.model.gitops.config import Reference, Unit, resolve_reference
from gitkruise.planner.sync.annotations import unit_label
from gitkruise.wire.primitives.names import ObjectKey

LOOK: Final = timedelta(seconds=1)
AGAIN_S: Final = 60.0  # before a commit is read again that could not be read
_AT_ONCE: Final = 8
_MESSAGE_MAX: Final = 100
MakeReader = Callable[[Unit], Builder | None]  # None while its source is not open


class ForeignUnits:
    """The units of other shards among the claims and states of this shard's units."""

    def __init__(
        self, context: UnitContext, reader: MakeReader, states: ShardStates | None
    ) -> None:
        self._context, self._reader, self._states = context, reader, states
        self.units: dict[str, Unit] = {}
        self._needed: set[str] = set()  # units of other shards that own ones depend on
        self._wanted_by_others: set[str] = set()  # own units that units of other shards depend on
        self._tips: dict[str, str] = {}  # by source: the commit offered last
        self._read: dict[str, str] = {}  # by unit: the commit whose objects are claimed
        self._failed: dict[str, tuple[str, float]] = {}  # by unit: a commit, and when to try again
        self._asked: set[str] = set()  # sources
        self._wake = asyncio.Event()

    def follow(self, whole: Mapping[str, Unit], own: Mapping[str, Unit]) -> None:
        """Know the units of `whole` that are not among `own`."""
        claims = self._context.claims
        before = self.units
        self.units = {name: unit for name, unit in whole.items() if name not in own}
        self._needed = set(_awaited(own.values())) & self.units.keys()
        self._wanted_by_others = set(_awaited(self.units.values())) & own.keys()
        for name in before.keys() - self.units.keys():
            self._read.pop(name, None)
            self._context.standings.leave_foreign(name)
            claims.leave(name)
        for name, unit in self.units.items():
            if before.get(name) != unit:
                self._read.pop(name, None)
                claims.join(name, source_of(unit), lambda: None)
                ask = partial(self._ask, source_of(unit))
                claims.ask(name, ask)
                mark = unit_label(self._context.cluster, name)
                claims.own(name, mark, partial(self._unsettled, name))

    def offering(self, source: str, commit: str) -> None:
        """Forget what was read of `source`, whose units are about to be offered `commit`."""
        self._tips[source] = commit
        for name in [n for n in self._read if source_of(self.units[n]) == source]:
            del self._read[name]
            self._context.claims.set(name, ())
        self._share()

    def known(self, source: str) -> bool:
        """Return whether the objects of all units of `source`, or of all with "", are claimed;
        otherwise have them read."""
        late = {
            source_of(unit)
            for name, unit in self.units.items()
            if source in {"", source_of(unit)} and not self._is_read(name)
        }
        for one in late:
            self._ask(one)
        return not late

    def _is_read(self, name: str) -> bool:
        tip = self._tip(name)
        return bool(tip) and self._read.get(name) == tip

    def _tip(self, name: str) -> str:
        return self._tips.get(source_of(self.units[name]), "")

    def _unsettled(self, name: str) -> Unsettled:
        unit = self.units.get(name)
        if unit is None:
            return Unsettled()
        if unit.spec.suspended(self._context.clock.now()) is not None:
            return Unsettled("which is suspended", f"resume unit {name}")
        if self._is_read(name):
            return Unsettled()
        self._ask(source_of(unit))
        commit, _ = self._failed.get(name, ("", 0.0))
        if commit and commit == self._tip(name):
            why = "which another shard has and whose newest commit could not be read"
            return Unsettled(why, f"correct the newest commit of unit {name}")
        why = "which another shard has and whose newest commit is being read"
        return Unsettled(why, "wait", reads=True)

    def _ask(self, source: str) -> None:
        self._asked.add(source)
        self._wake.set()

    async def run(self) -> None:
        """Read what was asked for, and share states, until cancelled."""
        while True:
            await wait_for(self._wake, self._context.clock, LOOK)
            self._wake.clear()
            self._share()
            asked, self._asked = self._asked, set()
            due = [name for name in self.units if self._is_due(name, asked)]
            gate = asyncio.Semaphore(_AT_ONCE)
            async with asyncio.TaskGroup() as tasks:
                for name in due:
                    tasks.create_task(self._guarded_read(name, gate))

    def _is_due(self, name: str, asked: set[str]) -> bool:
        source, tip = source_of(self.units[name]), self._tip(name)
        commit, again = self._failed.get(name, ("", 0.0))
        resting = commit == tip and self._context.clock.monotonic() < again
        return bool(tip) and source in asked and not self._is_read(name) and not resting

    async def _guarded_read(self, name: str, gate: asyncio.Semaphore) -> None:
        unit, tip = self.units[name], self._tip(name)
        async with gate:
            wanted = None
            try:
                with self._context.containment.of(f"Unit {name} of another shard"):
                    wanted = await self._wanted(unit, tip)
            except (DiagnosticError, ApiError):
                pass  # its own shard reports it; what waits for it keeps its objects
        if wanted is None:
            self._failed[name] = tip, self._context.clock.monotonic() + AGAIN_S
        elif self.units.get(name) == unit:
            self._failed.pop(name, None)
            self._read[name] = tip
            self._context.claims.set(name, wanted)
            self._context.claims.read(name, tip)

    async def _wanted(self, unit: Unit, commit: str) -> frozenset[ObjectKey] | None:
        """Return the objects of a unit by a commit; None for one that is rejected."""
        around, reader = self._context, self._reader(unit)
        if reader is None or await asyncio.to_thread(reader.refused, commit) is not None:
            return None
        rights = acting_as(account_of(unit), around.live.transport)
        given = await gather(unit, rights, around.charts)
        asked = BuildRequest.of(commit, None, "")
        answer = await around.workers.read(reader, asked, around.live.catalog, given)
        return built_commit(answer, None).wanted

    # States ---------------------------------------------------------------------------------

    def _share(self) -> None:
        """Report the states that units of other shards wait for, and receive those of others."""
        if self._states is None:
            return
        standings, claims = self._context.standings, self._context.claims
        states = self._states.read()
        for name in self._needed:
            state = states.get(name)
            if state is None:
                standings.leave_foreign(name)
            else:
                late = state.commit != self._tip(name)
                standings.receive_foreign(name, state.variables, late=late)
        mine = {
            name: SharedState(_short(standings.variables(name)), claims.commit_of(name))
            for name in self._wanted_by_others
            if not standings.not_ready_reason(name)
        }
        self._states.publish(mine)


def _awaited(units: Iterable[Unit]) -> Iterator[str]:
    for unit in units:
        for other in unit.spec.depends_on:
            yield resolve_reference(Reference(other.name, other.namespace), unit.namespace)


def _short(variables: Mapping[str, object]) -> dict[str, object]:
    return {**variables, "message": str(variables["message"])[:_MESSAGE_MAX]}
