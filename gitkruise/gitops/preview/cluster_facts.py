"""The live state that a plan needs, read at one moment: plain values, for a worker process too."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from gitkruise.errors import ApiError, Finding, Forbidden, NotFound, Severity
from gitkruise.gitops.build.release import KnownData
from gitkruise.gitops.cluster.delete_guards import held_by_others
from gitkruise.gitops.cluster.engine import delegated_by, heeds_canaries
from gitkruise.gitops.cluster.inventory import labelled_objects, listable_kinds
from gitkruise.gitops.preview.inputs import PlanSide
from gitkruise.gitops.preview.live_diff import read_live, sized_workloads
from gitkruise.gitops.preview.simulate import rollout_objects
from gitkruise.gitops.reconcile.preflight import (
    NAMESPACE,
    ignored_canaries,
    target_namespaces,
    unserved,
)
from gitkruise.gitops.reconcile.rejections import refusal
from gitkruise.kube.client.discovery import definitions, served_by
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.config import Unit
from gitkruise.model.workloads.labels import DEPLOYMENT, SIDECARSET
from gitkruise.model.workloads.rollout_kinds import BEARERS
from gitkruise.planner.sync.annotations import UNIT_REF, annotation, kept
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.planner.sync.prune import uid_of
from gitkruise.printable import listing
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterFacts:
    """The live state that a plan starts from.

    `objects` are those of the plan that exist, `findings` say which could not be read, of which
    kind or namespace the cluster has none, and what it would ignore. `rollouts` is what the
    rollouts of the plan can depend on, pods included; `delegated` names the objects whose pods
    OpenKruise drives, `sized` those whose size an autoscaler sets. `heeds_canaries`: its Deployment
    controller pauses at them. `cluster` is its name in the report. `left` are the objects that
    carry the mark of a unit and that neither side names: a sync deletes them, or asks whether it
    may. `inventory` has the unit of each object that carries a mark. `held` says of objects that
    go why they stay: they contain objects of others. `ending` are being deleted, and the target has
    them again: they are not among `objects`, for a sync creates them when they are gone. `known`
    has the values that both sides were rendered with, where they were read elsewhere.
    """

    cluster: str
    now: datetime
    definitions: Sequence[Obj]  # of kinds that the cluster serves and the catalog may lack
    objects: Mapping[ObjectKey, Obj]
    findings: tuple[Finding, ...]
    rollouts: tuple[Obj, ...]
    delegated: frozenset[ObjectKey]
    heeds_canaries: bool = True
    sized: frozenset[ObjectKey] = frozenset()
    left: Mapping[ObjectKey, Obj] = field(default_factory=dict)
    inventory: Mapping[ObjectKey, str] = field(default_factory=dict)
    held: Mapping[ObjectKey, str] = field(default_factory=dict)
    ending: tuple[ObjectKey, ...] = ()
    known: KnownData | None = None


async def cluster_facts(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    *,
    transport: Transport,
    now: datetime,
    cluster: str = "",
) -> ClusterFacts:
    """Read the live state of a plan from `base` to `target`. Raises ApiError."""
    try:
        return await _read(base, target, catalog, transport=transport, now=now, cluster=cluster)
    except ExceptionGroup as group:  # requests that failed together are one failure
        known, other = group.split(ApiError)
        if known is None or other is not None:
            raise
        raise _first(known) from group


def _first(group: ExceptionGroup[ApiError]) -> ApiError:
    found = group.exceptions[0]
    return _first(found) if isinstance(found, ExceptionGroup) else found


async def _read(
    base: PlanSide | None,
    target: PlanSide,
    catalog: Catalog,
    *,
    transport: Transport,
    now: datetime,
    cluster: str,
) -> ClusterFacts:
    served_as = await definitions(transport, catalog)
    keys = {d.key for d in (*(base.objects if base else ()), *target.objects)}
    served = served_by(catalog, served_as)
    seen = await read_live(transport, served, keys)
    kinds = {d.key.group_kind for d in target.objects}
    spaces = {d.key.namespace for d in target.objects if d.key.group_kind in BEARERS}
    spaces |= {""} if SIDECARSET in kinds else set()  # their pods may be anywhere
    marked, unread = await _marked(target, served, transport)
    marked = {**{key: obj for key, obj in seen.objects.items() if mark_of(obj)}, **marked}
    ends = base.everyone.keys() - target.everyone.keys() if base else frozenset[str]()
    decided = (target.followed_by - target.rejected.keys()) | ends
    left = {key: thaw(obj) for key, obj in marked.items() if _is_left(key, obj, keys, decided)}
    going = seen.objects.keys() - {d.key for d in target.objects}
    gone = {**left, **{key: seen.objects[key] for key in going}}
    units = {**(base.everyone if base else {}), **target.everyone}
    deleted = {key for key, obj in gone.items() if _is_deleted(obj, units)}
    ending = _ending(target, seen.objects)
    lasting = {key: obj for key, obj in seen.objects.items() if key not in ending}
    there = [d for d in target.objects if d.key in lasting]
    sized = await sized_workloads(there, transport, served)
    rollouts = rollout_objects(transport, catalog, spaces, kinds=kinds, served=served)
    kept = {key for key, unit in target.units.items() if unit.id in target.rejected}
    applied = replace(target, objects=tuple(d for d in target.objects if d.key not in kept))
    return ClusterFacts(
        cluster=cluster,
        now=now,
        definitions=tuple(map(thaw, served_as)),
        objects={key: thaw(obj) for key, obj in lasting.items()},
        findings=(
            *seen.findings,
            *unread,
            *unserved(applied.objects, served, target.units),
            *await _without_namespace(applied, seen.objects, served, transport),
            *await ignored_canaries(applied.objects, transport),
            *sized.findings,
        ),
        rollouts=_without(await rollouts, frozenset(ending.values())),
        heeds_canaries=DEPLOYMENT not in kinds or await heeds_canaries(transport),
        delegated=await delegated_by(transport, target.units, now),
        sized=sized.keys,
        left=left,
        inventory={k: annotation(o, UNIT_REF) for k, o in marked.items() if k not in ending},
        held={
            key: why
            for key, obj in sorted(gone.items())
            if (why := await held_by_others(transport, served, key, obj, going=deleted))
        },
        ending=tuple(ending),
    )


async def _marked(
    target: PlanSide, catalog: Catalog, transport: Transport
) -> tuple[Mapping[ObjectKey, Obj], Sequence[Finding]]:
    """Return (objects that units have, what could not be listed)."""
    if not target.followed_by:
        return {}, ()
    kinds = listable_kinds(catalog).values()
    async with asyncio.TaskGroup() as tasks:
        lists = [tasks.create_task(_listed(transport, kind)) for kind in kinds]
    listed = {kind.ref.plural: task.result() for kind, task in zip(kinds, lists, strict=True)}
    closed = sorted(plural for plural, objects in listed.items() if objects is None)
    found = {key: obj for objects in listed.values() for key, obj in (objects or {}).items()}
    return found, (_unlisted(closed),) if closed else ()


async def _listed(transport: Transport, kind: Kind) -> Mapping[ObjectKey, Obj] | None:
    """Return the objects of a kind with a unit label; None if it may not be listed."""
    try:
        return await labelled_objects(transport, kind)
    except Forbidden:
        return None


def _is_left(
    key: ObjectKey, obj: Obj, named: Collection[ObjectKey], units: Collection[str]
) -> bool:
    """Return whether one of `units`, which take the target or end by it, has an object that no side
    names. Not those that an annotation keeps for good, and those that are being deleted."""
    of_unit = annotation(obj, UNIT_REF) in units
    return of_unit and key not in named and not _is_going(obj) and not kept(obj)


def _ending(target: PlanSide, live: Mapping[ObjectKey, Obj]) -> Mapping[ObjectKey, str]:
    """Return the objects of the target whose old ones are being deleted, with the uid of these."""
    found = {d.key: live[d.key] for d in target.objects if d.key in live}
    return {key: uid_of(obj) for key, obj in found.items() if _is_going(obj)}


def _is_going(obj: Obj) -> bool:
    return get(obj, "metadata", "deletionTimestamp") is not None


def _without(objects: tuple[Obj, ...], uids: frozenset[str]) -> tuple[Obj, ...]:
    """Return `objects` without those of `uids` and what these own, at any depth."""
    if not uids:
        return objects
    rest = tuple(obj for obj in objects if not (_owners(obj) | {uid_of(obj)}) & uids)
    gone = {uid_of(obj) for obj in objects} - {uid_of(obj) for obj in rest}
    return _without(rest, frozenset(gone)) if gone else rest


def _owners(obj: Obj) -> frozenset[str]:
    return frozenset(ref["uid"] for ref in get(obj, "metadata", "ownerReferences", default=()))


def _is_deleted(obj: Obj, units: Mapping[str, Unit]) -> bool:
    """Return whether the unit that owns an object deletes what git lacks, approved or not."""
    unit = units.get(annotation(obj, UNIT_REF)) if mark_of(obj) else None
    return unit is not None and unit.spec.prune.enabled and not kept(obj)


def _unlisted(kinds: Sequence[str]) -> Finding:
    return Finding(
        code="GK4301",
        message=f"not allowed: list {listing(kinds, 3)}",
        notes=(("unknown", "whether an earlier commit left such objects to be deleted"),),
        severity=Severity.WARNING,
    )


async def _without_namespace(
    target: PlanSide, live: Mapping[ObjectKey, Obj], catalog: Catalog, transport: Transport
) -> list[Finding]:
    """Return GK4202 for each new object whose namespace neither the cluster nor git has.

    Without the right to read namespaces it is not known which there are. Raises ApiError.
    """
    there = {key.namespace for key in live}
    there |= {d.key.name for d in target.objects if d.key.group_kind == NAMESPACE}
    there |= target_namespaces(target.everyone.values())
    asked = [d for d in target.objects if d.key.namespace and d.key.namespace not in there]
    spaces = {ObjectKey("", "Namespace", "", d.key.namespace) for d in asked}
    seen = await read_live(transport, catalog, spaces)
    if seen.findings:
        return []
    there |= {key.name for key in seen.objects}
    return [
        refusal(d, NotFound(f'namespaces "{d.key.namespace}" not found'))
        for d in asked
        if d.key.namespace not in there
    ]
