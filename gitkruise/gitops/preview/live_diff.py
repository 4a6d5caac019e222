"""A plan held against a live cluster: what is there now, and what its dry run makes of a change."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Final

from gitkruise.admission.conversion.registry import convert
from gitkruise.errors import Finding, Forbidden, NotFound, Severity
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.reconcile.applier import Applier, ApplyFacts, Sent
from gitkruise.gitops.reconcile.preflight import brought, refusals, target_namespaces, warnings
from gitkruise.gitops.reconcile.preflight import testable as can_be_tried
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, DesiredSet
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import DIGEST, annotation, bare, unit_label
from gitkruise.planner.sync.autoscale import AUTOSCALERS, scalable, target_of
from gitkruise.planner.sync.diff import all_differences
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey

_ONE_BY_ONE: Final = 3  # so many objects of a namespace are fetched, more are listed
_AT_ONCE: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveObjects:
    """The live objects of those requested, and the problems of those that could not be read."""

    objects: Mapping[ObjectKey, Obj]
    findings: tuple[Finding, ...] = ()
    unread: frozenset[ObjectKey] = frozenset()


async def read_live(
    transport: Transport,
    catalog: Catalog,
    keys: Iterable[ObjectKey],
    *,
    otherwise: str = "are compared with git alone",
) -> LiveObjects:
    """The live objects of `keys` in the version the cluster stores.

    `otherwise` says in a finding what becomes of objects that may not be read. Raises ApiError.
    """
    wanted = sorted(set(keys), key=lambda k: (k.group, k.kind, k.namespace, k.name))
    slots = asyncio.Semaphore(_AT_ONCE)
    async with asyncio.TaskGroup() as tasks:
        tasks_of_kinds = [
            tasks.create_task(_objects_of_kind(transport, kind, list(some), slots, otherwise))
            for (gk, _), some in groupby(wanted, lambda k: (k.group_kind, k.namespace))
            if (kind := catalog.stored(gk)) is not None
        ]
    found: dict[ObjectKey, Obj] = {}
    refused: list[Finding] = []
    unread: set[ObjectKey] = set()
    for task in tasks_of_kinds:
        seen = task.result()
        found |= seen.objects
        refused += seen.findings
        unread |= seen.unread
    return LiveObjects(objects=found, findings=tuple(refused), unread=frozenset(unread))


async def _objects_of_kind(
    transport: Transport,
    kind: Kind,
    keys: Sequence[ObjectKey],
    slots: asyncio.Semaphore,
    otherwise: str,
) -> LiveObjects:
    """Objects of one kind in one namespace."""
    async with slots:
        try:
            return LiveObjects(objects=await _fetched(transport, kind, keys))
        except Forbidden as error:
            finding = Finding(
                code="GK4301",
                message=f"not allowed: {error.message}",
                notes=(("unchanged", f"{keys[0].kind} objects {otherwise}"),),
                severity=Severity.WARNING,
            )
            return LiveObjects(objects={}, findings=(finding,), unread=frozenset(keys))


async def _fetched(
    transport: Transport, kind: Kind, keys: Sequence[ObjectKey]
) -> dict[ObjectKey, Obj]:
    marks = {"apiVersion": kind.api_version, "kind": kind.kind}
    namespace = keys[0].namespace
    if len(keys) > _ONE_BY_ONE:
        everything = await listed(transport, kind.ref, namespace=namespace)
        there = {obj["metadata"]["name"]: obj for obj in everything}
        return {k: {**marks, **there[k.name]} for k in keys if k.name in there}
    found: dict[ObjectKey, Obj] = {}
    for key in keys:
        if (obj := await find_object(transport, kind.ref, key.name, namespace)) is not None:
            found[key] = obj
    return found


@dataclass(frozen=True, slots=True)
class SizedWorkloads:
    """Workloads whose size an autoscaler sets; `findings` name autoscalers that may not be read."""

    keys: frozenset[ObjectKey]
    findings: tuple[Finding, ...] = ()


async def sized_workloads(
    objects: Iterable[Desired], transport: Transport, catalog: Catalog
) -> SizedWorkloads:
    """Find the autoscalers in the namespaces of those objects that have a size.

    Raises ApiError.
    """
    found: set[ObjectKey] = set()
    refused: list[Finding] = []
    namespaces = sorted({d.key.namespace for d in objects if scalable(d)} - {""})
    for kind in filter(None, map(catalog.stored, AUTOSCALERS)):
        for namespace in namespaces:
            try:
                items = await listed(transport, kind.ref, namespace=namespace)
            except NotFound:  # not served
                continue
            except Forbidden as error:
                refused.append(_unknown_sizes(error, namespace))
                continue
            targets = (target_of({"kind": kind.kind, **item}) for item in items)
            found.update(key for key in targets if key is not None)
    return SizedWorkloads(frozenset(found), tuple(refused))


def _unknown_sizes(error: Forbidden, namespace: str) -> Finding:
    return Finding(
        code="GK4301",
        message=f"not allowed: {error.message}",
        notes=(("unknown", f"whether an autoscaler sets sizes in namespace {namespace}"),),
        severity=Severity.WARNING,
    )


# The cluster's own dry run ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class DryRun:
    """Inputs of a dry run: the API server, the name of the cluster, and its live objects."""

    transport: Transport
    catalog: Catalog
    cluster: str
    gates: Gates
    live: Mapping[ObjectKey, Obj]

    async def try_out(
        self, changes: Sequence[ObjectChange], target: PlanSide
    ) -> tuple[tuple[ObjectChange, ...], tuple[Finding, ...]]:
        """`changes` as the cluster itself would make them, and what it refuses or warns of.

        Only objects whose content is not applied yet are sent (server-side apply with dryRun=All,
        as a sync sends them); fields are what the reply has different from what lives, so that
        what the server sets itself is no difference. What the commit brings a namespace or kind
        for cannot be tried, and stays as git says. Raises ClusterFailed.
        """
        wanted = {d.key: d for d in target.objects}
        due = [d for d in target.objects if self._due(d)]
        everything = DesiredSet(commit=target.commit, objects=target.objects)
        ensured = target_namespaces(target.units[d.key] for d in due)
        new = await brought(everything, self.live, self.transport, ensured=ensured)
        tried = can_be_tried(due, new)
        sent: list[Sent] = []
        for unit in sorted({target.units[d.key].id for d in tried}):
            some = [d for d in tried if target.units[d.key].id == unit]
            sent += await self._send(target.units[some[0].key], some, target)
        replies = {s.desired.key: s.reply for s in sent if s.reply is not None}
        again = {s.desired.key for s in sent if s.replace}
        made = tuple(
            self._as_made(c, wanted[c.key], replies[c.key])
            if c.key in replies
            else replace(c, replaced=c.key in again)
            for c in changes
        )
        moving = {d.key for d in due} | {c.key for c in changes if c.kind is ChangeKind.PRUNE}
        return made, (*refusals(everything, sent, self.live, moving), *warnings(sent))

    def _due(self, d: Desired) -> bool:
        live = self.live.get(d.key)
        return not d.hook and (live is None or annotation(live, DIGEST) != d.digest)

    async def _send(self, unit: Unit, objects: Sequence[Desired], target: PlanSide) -> list[Sent]:
        label = unit_label(self.cluster, unit.id)
        facts = ApplyFacts(gates=self.gates)
        applier = Applier(self.transport, unit, label, target.commit, facts=facts)
        there = {d.key: self.live[d.key] for d in objects if d.key in self.live}
        return await applier.send(objects, there, self.catalog, dry_run=True)

    def _as_made(self, change: ObjectChange, d: Desired, reply: Obj) -> ObjectChange:
        live = self.live.get(change.key)
        if live is None:
            return replace(change, kind=ChangeKind.CREATE, after=bare(reply))
        kind = self.catalog.by_kind(d.key.group, d.version, d.key.kind)
        before, after = bare(convert(live, d.version)), bare(reply)
        fields = all_differences(before, after, kind.strict if kind else None)
        what = ChangeKind.CONFIGURE if fields else ChangeKind.UNCHANGED
        return replace(change, kind=what, before=before, after=after, fields=fields, drift=False)
