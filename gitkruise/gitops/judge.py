"""Can a commit be taken? It is read, what it names is followed, and its changes are tried out."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gitkruise.errors import Finding, Reported
from gitkruise.gitops.apply import Sent, ensure_namespace
from gitkruise.gitops.claims import Claims
from gitkruise.gitops.gate import Gate, Standings
from gitkruise.gitops.ingredients import gather
from gitkruise.gitops.intake import Intake, Reader
from gitkruise.gitops.live import LiveView
from gitkruise.gitops.observe import Observation
from gitkruise.gitops.preflight import brought, check_updates, refusals, testable, unreachable
from gitkruise.gitops.windows import Windows
from gitkruise.kube.clock import Clock
from gitkruise.kube.transport import Transport
from gitkruise.model.change import Desired, DesiredSet
from gitkruise.model.document import Commit
from gitkruise.model.settings import Gates
from gitkruise.planner.rollout_kinds import ROLLOUTS
from gitkruise.planner.sync.autoscale import scalable


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What every unit of a process shares."""

    live: LiveView
    clock: Clock
    cluster: str
    gates: Gates
    engine: str
    by_hand: bool = False  # a person asked for one pass
    claims: Claims = field(default_factory=Claims)
    standings: Standings = field(default_factory=Standings)


class Trial(Protocol):
    """What the judge asks of the unit's side of the cluster."""

    def changed(self, desired: DesiredSet) -> tuple[list[Desired], Observation]:
        """What taking `desired` would change, and what is live."""
        ...

    async def try_out(
        self, objects: Sequence[Desired], seen: Observation, commit: str
    ) -> list[Sent]:
        """A dry run."""
        ...


class Judge:
    """Reads commits of one unit and decides whether they can be taken."""

    def __init__(
        self, reader: Reader, around: Surroundings, trial: Trial, transport: Transport
    ) -> None:
        """`transport` asks with the unit's rights."""
        self._reader, self._around, self._trial = reader, around, trial
        self._transport = transport
        self._unit = reader.unit
        windows = Windows(reader.unit.spec.windows, around.clock, by_hand=around.by_hand)
        self.gate = Gate(reader.unit, around.standings, windows)

    async def read(
        self, commit: str, before: Intake | None, looked: str, applied: Commit | None
    ) -> Intake:
        """A commit with everything against it; one whose content is live already is not tried.

        `before` is what is live, `looked` the newest commit looked at, `applied` what an earlier
        run left. Raises Reported or ApiError when git or the cluster cannot be asked.
        """
        intake = await self._followed(commit, before, looked)
        if intake.desired is None or (before and intake.desired is before.desired):
            return intake
        if not intake.desired.objects and self._had_objects(commit, before, applied):
            return replace(intake, desired=None, findings=(*intake.findings, _EMPTIED))
        awaits = self.gate.waits_for()
        if awaits and self._trial.changed(intake.desired)[0]:
            return replace(intake, desired=None, awaits=awaits)
        findings = await self._preflight(intake.desired, intake.causal.id)
        if not findings:
            return intake
        told = (*intake.findings, *findings)
        return replace(intake, desired=None, findings=told, by_cluster=True)

    async def follow(self, desired: DesiredSet) -> None:
        """See every kind the commit names before deciding anything about it."""
        live = self._around.live
        kinds = {d.key.group_kind: d.version for d in desired.objects}
        if any(live.catalog.stored(kind) is None for kind in kinds):
            await live.discover()
        if any(scalable(d) for d in desired.objects):
            kinds = {**await live.autoscalers(), **kinds}
        informers = live.want(kinds)
        rolling = [(d.key, ROLLOUTS.get(d.key.group_kind)) for d in desired.objects]
        spaces = {"" if kind.everywhere else key.namespace for key, kind in rolling if kind}
        informers += live.want_workloads({""} if "" in spaces else spaces)
        await live.ready(informers)

    async def _followed(self, commit: str, before: Intake | None, looked: str) -> Intake:
        """Read a commit with all it names followed; a second time when a kind was new to us."""
        live = self._around.live
        catalog = live.catalog
        given = await gather(self._unit, self._transport)
        intake = await asyncio.to_thread(self._reader.read, commit, catalog, before, looked, given)
        if intake.desired is not None and not (before and intake.desired is before.desired):
            await self.follow(intake.desired)
            if live.catalog is not catalog:
                catalog = live.catalog
                return await asyncio.to_thread(
                    self._reader.read, commit, catalog, before, looked, given
                )
        return intake

    def _had_objects(self, commit: str, before: Intake | None, applied: Commit | None) -> bool:
        """Whether a commit without objects would take away what is live."""
        if self._unit.spec.prune.allow_empty:
            return False
        if before is not None and before.desired is not None:
            return bool(before.desired.objects)
        return applied is not None and applied.id != commit

    async def _preflight(self, desired: DesiredSet, commit: str) -> list[Finding]:
        """What our rules and the cluster's dry run say against the objects that would change."""
        live = self._around.live
        changed, seen = self._trial.changed(desired)
        objs = {key: found.obj for key, found in seen.live.items()}
        findings = check_updates(changed, objs, live.catalog, self._around.gates)
        if findings or not changed:
            return findings
        target = self._unit.spec.target.namespace or self._unit.namespace
        new = brought(desired, objs)
        if self._unit.spec.target.create_namespace and target not in new:
            await ensure_namespace(self._transport, target, live.catalog)
        sent = await self._trial.try_out(testable(changed, new), seen, commit)
        silent = unreachable(sent)
        if silent is not None:
            raise Reported(silent)
        return list(refusals(desired, sent))


_EMPTIED = Finding(
    code="GK2301",
    message="this commit leaves nothing in the unit",
    notes=(("next", "if that is meant, set prune.allowEmpty: true on the unit"),),
)
