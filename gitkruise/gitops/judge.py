"""Can a commit be taken? It is read, what it names is followed, and its changes are tried out."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Protocol

from gitkruise.errors import Finding, Reported
from gitkruise.gitops.apply import Sent, ensure_namespace
from gitkruise.gitops.approval import Consent, Move, approvals, request
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
from gitkruise.planner.sync.marks import unit_label
from gitkruise.wire.names import ObjectKey


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

    async def complete(self) -> str:
        """Know every live object that carries the unit's label; the newest commit that was taken
        before this start, "" for none."""
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
        label = unit_label(around.cluster, reader.unit.id)
        self._consent = Consent(reader.unit, label, around.gates)
        windows = Windows(reader.unit.spec.windows, around.clock, by_hand=around.by_hand)
        self.gate = Gate(reader.unit, around.standings, windows)

    async def read(
        self,
        commit: str,
        before: Intake | None,
        looked: str,
        applied: Commit | None,
        *,
        known: bool = False,
    ) -> Intake:
        """A commit with everything against it; one whose content is live already is not tried.

        `before` is what is live, `looked` the newest commit looked at, `applied` what an earlier
        run left; `known`: the commit was taken before a start. Raises Reported or ApiError when git
        or the cluster cannot be asked.
        """
        intake = await self._followed(commit, before, looked)
        if intake.desired is None or (before and intake.desired is before.desired):
            return intake
        if not intake.desired.objects and self._had_objects(commit, before, applied):
            return replace(intake, desired=None, findings=(*intake.findings, _EMPTIED))
        if not known:
            self.gate.consent = ""
        awaits = self.gate.waits_for()
        if awaits and self._trial.changed(intake.desired)[0]:
            return replace(intake, desired=None, awaits=awaits)
        findings, replaced = await self._preflight(intake.desired, intake.causal.id)
        if not findings:
            again = known or (applied is not None and applied.id == intake.causal.id)
            return intake if again else await self._agreed(intake, before, replaced)
        told = (*intake.findings, *findings)
        return replace(intake, desired=None, findings=told, by_cluster=True)

    async def _agreed(
        self, intake: Intake, before: Intake | None, replaced: frozenset[ObjectKey]
    ) -> Intake:
        """The commit as it is if nobody is to be asked, or somebody agreed; else it waits."""
        assert intake.desired is not None
        if not self._consent.needed:
            return intake
        stood = await self._trial.complete()
        changed, seen = self._trial.changed(intake.desired)
        move = Move(desired=intake.desired, changed=changed, live=seen.live, replaced=replaced)
        mark, why = self._consent.asks(move)
        if not mark or mark == self._unit.approved:
            return intake
        since = before.commit.id if before is not None else stood
        repository, commit = self._reader.repository, intake.commit.id
        if mark in await asyncio.to_thread(approvals, repository, commit, since):
            return intake
        self.gate.consent = request(mark, why)
        return replace(intake, desired=None, awaits=self.gate.consent)

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

    async def learn_kinds(self, desired: DesiredSet, objects: Iterable[Desired]) -> None:
        """Ask again what the cluster serves when a kind is new: its CRD may have come before."""
        catalog = self._around.live.catalog
        if any(catalog.by_kind(d.key.group, d.version, d.key.kind) is None for d in objects):
            await self._around.live.discover()
            await self.follow(desired)

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

    async def _preflight(
        self, desired: DesiredSet, commit: str
    ) -> tuple[list[Finding], frozenset[ObjectKey]]:
        """What our rules and the cluster's dry run say against the objects that would change; and
        those that would be replaced."""
        live = self._around.live
        changed, seen = self._trial.changed(desired)
        objs = {key: found.obj for key, found in seen.live.items()}
        findings = check_updates(changed, objs, live.catalog, self._around.gates)
        if findings or not changed:
            return findings, frozenset()
        target = self._unit.spec.target.namespace or self._unit.namespace
        new = await brought(desired, objs, live.transport)
        if self._unit.spec.target.create_namespace and target not in new:
            await ensure_namespace(self._transport, target, live.catalog)
        sent = await self._trial.try_out(testable(changed, new), seen, commit)
        silent = unreachable(sent)
        if silent is not None:
            raise Reported(silent)
        return list(refusals(desired, sent)), frozenset(s.desired.key for s in sent if s.replace)


_EMPTIED = Finding(
    code="GK2301",
    message="this commit leaves nothing in the unit",
    notes=(("next", "if that is meant, set prune.allowEmpty: true on the unit"),),
)
