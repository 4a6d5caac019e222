"""Forecast of the rollouts that a commit starts.

The waves come from the controller's own planner, played on a model cluster: on a copy of the
live objects when a cluster is given, on the base commit's objects brought to rest otherwise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from gitkruise.admission.chain import admit
from gitkruise.admission.conversion.registry import convert
from gitkruise.errors import ApiError, Finding, Severity
from gitkruise.gitops.build.kruise_defaulting import dialect_of
from gitkruise.gitops.build.redacted_findings import unquoted
from gitkruise.gitops.build.validate import check_object
from gitkruise.gitops.preview.changes import rollouts_started
from gitkruise.gitops.preview.rejection import refusing
from gitkruise.gitops.reconcile.rejections import (
    JUDGED_HERE,
    cannot_change,
    immutable,
    pulled_already,
    replaceable,
)
from gitkruise.kube.client.codec import encode
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.change import ChangeKind, ObjectChange
from gitkruise.model.gitops.document import Desired
from gitkruise.model.node.node_fit import is_simulated
from gitkruise.model.planning.canary import CANARIES
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    BUDGET,
    CLONESET,
    DEPLOYMENT,
    REPLICASET,
    SIDECARSET,
    SPREAD,
    STATEFULSET,
)
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.model.workloads.revision import REVISION
from gitkruise.model.workloads.rollout_kinds import BEARERS
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.health.tie_breaks import loosened
from gitkruise.planner.report.blast_radius import played_ahead
from gitkruise.planner.sync.annotations import MANAGER
from gitkruise.planner.sync.canary_pause import as_sent, by_canary, held_back
from gitkruise.planner.sync.takeover import handed_over
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, split_api_version
from gitkruise.wire.primitives.paths import drop, get
from gitkruise.wire.primitives.requests import ApiRequest, apply_request
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.scheduler import add_nodes
from gitkruise.world.kubelet.profiles import GENERAL
from gitkruise.world.simulation.forecast import Forecast, predict, settle

if TYPE_CHECKING:
    from gitkruise.gitops.preview.inputs import PlanSide
    from gitkruise.gitops.preview.ownership import OwnedChanges

__all__ = [
    "Forecast", "Played", "after_takeover", "live_world", "loosened_by", "offline_world", "play",
    "rollout_objects", "with_fixed_fields", "without_canary",
]  # fmt: skip

NAMESPACE: Final = GroupKind("", "Namespace")
_NODE: Final = GroupKind("", "Node")
# What a rollout can depend on; everything else of the cluster plays no part in it.
_STAGE: Final = (
    NAMESPACE,
    _NODE,
    GroupKind("", "Pod"),
    GroupKind("", "ConfigMap"),
    GroupKind("", "PersistentVolumeClaim"),
    REVISION,
    SIDECARSET,
    BUDGET,
    SPREAD,
    CLONESET,
)
# What the rollouts of other kinds depend on, read only for these.
_ALSO: Final[Mapping[GroupKind, tuple[GroupKind, ...]]] = {
    DEPLOYMENT: (DEPLOYMENT, REPLICASET),
    ADVANCED_STATEFULSET: (ADVANCED_STATEFULSET,),
    STATEFULSET: (STATEFULSET,),
}
_ALONE: Final = frozenset({CLONESET, *_ALSO})  # their rollouts do not meet each other
_NODES: Final = 5  # of an offline preview
_UNREAD: Final = "not all of its values are known here"
_REAL: Final = replace(GENERAL, words=MappingProxyType({}))  # a registry may have any tag


# Playing ahead ----------------------------------------------------------------------------------


def offline_world(
    stages: Sequence[Sequence[Desired]],
    catalog: Catalog,
    gates: Gates,
    now: datetime,
    *,
    moved: Collection[ObjectKey],
) -> tuple[World, datetime]:
    """A model cluster in which each stage was applied and came to rest, and when the last one did.

    An object that the model rejects stays as the stage before left it, as on a cluster. Of
    CloneSets, StatefulSets and Deployments those that `moved` names are enough, because
    their rollouts do not meet each other here; a SidecarSet among them, or a PodUnavailableBudget
    with a selector, may mean the pods of all of them.
    """
    meets = any(key.group_kind == SIDECARSET for key in moved) or any(
        d.key.group_kind == BUDGET and get(d.obj, "spec", "selector") is not None
        for stage in stages
        for d in stage
    )
    bearers = BEARERS if meets else frozenset()
    world = _world(catalog, gates)
    add_nodes(world, _NODES, now)
    for stage in stages:
        for d in sorted(stage, key=lambda d: d.stage):
            kind = d.key.group_kind
            needed = d.key in moved or (kind in _STAGE and kind not in _ALONE)
            if (needed or kind in bearers) and _served(d, catalog):
                with suppress(ApiError):  # a template that was never live, or has unread values
                    _ensure_namespace(world, d.key.namespace, catalog, now)
                    world.handle(_write(world, d, catalog, now), now)
        now = settle(world, now, gates=gates, profile=_REAL, any_node=True).end
    return world, now


async def rollout_objects(
    transport: Transport,
    catalog: Catalog,
    namespaces: Iterable[str],
    *,
    kinds: Collection[GroupKind],
    served: Catalog,
) -> tuple[Obj, ...]:
    """The objects of the rollouts in `namespaces` ("" for all) and those that they can depend on,
    revisions that SidecarSets inject included. Deployments and StatefulSets are read where they
    are among `kinds`, those of the plan; kinds that the cluster does not serve have no objects.
    Objects of a version that `catalog` does not store are converted. Raises ApiError.
    """
    import asyncio  # noqa: PLC0415  slow to import, and not needed offline

    spaces = sorted({*namespaces, REVISION_NAMESPACE})
    spaces = [""] if "" in spaces else spaces
    async with asyncio.TaskGroup() as tasks:
        lists = [
            tasks.create_task(_read(transport, there, ns, stored.version))
            for gk in (*_STAGE, *(more for kind in _ALSO if kind in kinds for more in _ALSO[kind]))
            if (stored := catalog.stored(gk)) is not None
            and (there := served.stored(gk)) is not None
            for ns in (spaces if there.namespaced else [""])
        ]
    return tuple(obj for task in lists for obj in task.result())


def live_world(objects: Sequence[Obj], catalog: Catalog, gates: Gates) -> World:
    """A model cluster that holds what the real one holds of its rollouts."""
    world = _world(catalog, gates)
    world.restore(objects, max((_version(obj) for obj in objects), default=1))
    return world


def _version(obj: Obj) -> int:
    return int(obj["metadata"]["resourceVersion"])


async def _read(transport: Transport, kind: Kind, namespace: str, version: str) -> list[Obj]:
    request = ApiRequest(verb="list", resource=kind.ref, namespace=namespace)
    items = (await transport.send(request)).body.get("items") or ()
    marks = {"apiVersion": kind.api_version, "kind": kind.kind}
    return [convert({**marks, **thaw(item)}, version) for item in items]


def _world(catalog: Catalog, gates: Gates) -> World:
    """A model cluster without objects, which has every PriorityClass that a pod names."""
    return World(
        catalog,
        admit=lambda request: admit(replace(request, assumed=True), gates),
        gates=gates,
        seed=0,
    )


def _ensure_namespace(world: World, name: str, catalog: Catalog, now: datetime) -> None:
    if not name or world.get(ObjectKey("", "Namespace", "", name)) is not None:
        return
    kind = catalog.stored(NAMESPACE)
    assert kind is not None
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    world.handle(ApiRequest(verb="create", resource=kind.ref, body=body), now)


def _apply(d: Desired, catalog: Catalog) -> ApiRequest:
    dialect = dialect_of(d, catalog)
    assert dialect is not None
    body = convert(d.obj, dialect.kind.version)
    return apply_request(dialect.kind.ref, body, MANAGER, namespace=d.key.namespace, force=True)


def after_takeover(
    wanted: Sequence[tuple[Desired, Obj]], catalog: Catalog, gates: Gates, now: datetime
) -> tuple[dict[ObjectKey, Obj], list[Finding]]:
    """Return objects that other tools applied as they are once git has them: (git, live) of each.

    Those that the model rejects are left out, with a finding for each.
    """
    there = [handed_over(live) for _, live in wanted]
    world = live_world(there, catalog, gates)
    found: dict[ObjectKey, Obj] = {}
    wrong: list[Finding] = []
    served = [d for d, _ in wanted if _served(d, catalog)]  # there is a finding for the others
    for d, answer in _applied(world, served, catalog, now):
        if isinstance(answer, ApiError):
            wrong.append(_losses_unknown(d, unquoted(answer, d).message))
        else:
            found[d.key] = answer
    return found, wrong


def _applied(
    world: World, wanted: Iterable[Desired], catalog: Catalog, now: datetime
) -> Iterator[tuple[Desired, Obj | ApiError]]:
    """Apply objects of git to `world`; yield each with what it became, or why it was rejected."""
    for d in wanted:
        try:
            _ensure_namespace(world, d.key.namespace, catalog, now)
            yield d, world.handle(_apply(d, catalog), now).body
        except ApiError as error:
            yield d, error


def _refusals_of(
    wanted: Iterable[tuple[Desired, Obj | Desired]], catalog: Catalog, gates: Gates, now: datetime
) -> Iterator[tuple[Desired, ApiError]]:
    """Try objects of git over what there is, live or of an earlier commit; yield those that the
    model rejects."""
    due = [
        pair
        for pair in wanted
        if all(_served(one, catalog) for one in pair if isinstance(one, Desired))
    ]
    live = [before for _, before in due if not isinstance(before, Desired)]
    world = live_world(live, catalog, gates)
    earlier = [before for _, before in due if isinstance(before, Desired)]
    answers = _applied(world, earlier, catalog, now)
    never = {d.key for d, answer in answers if isinstance(answer, ApiError)}
    tried = (d for d, _ in due if d.key not in never)
    for d, answer in _applied(world, tried, catalog, now):
        if isinstance(answer, ApiError):
            yield d, answer


def with_fixed_fields(
    owned: OwnedChanges,
    target: PlanSide,
    before: Mapping[ObjectKey, Obj | Desired],
    catalog: Catalog,
    gates: Gates,
    now: datetime,
) -> OwnedChanges:
    """Return the changes with those marked that the controller makes by a new object, and GK2203
    for each that it refuses; those that are played ahead have findings of their own.

    `before` are live objects, or those of the base.
    """
    due = {
        change.key: change
        for change in owned.changes
        if change.kind is ChangeKind.CONFIGURE and change.fields and change.key in before
    }
    mine = [d for d in target.objects if d.key in due and not d.hook]
    refused = [*_refusals_of([(d, before[d.key]) for d in mine], catalog, gates, now)]
    for d in mine:
        there = before[d.key]
        if not isinstance(there, Desired) and (complete := pulled_already(d, there)) is not None:
            refused.append((d, complete))
    errors = {d.key: (d, error) for d, error in refused if immutable(error)}
    again = {
        key
        for key, (d, _) in errors.items()
        if (unit := target.units.get(key)) is not None and replaceable(d, unit)
    }
    refusals = [
        cannot_change(d, error, due[key].before)
        for key, (d, error) in errors.items()
        if key not in again and not played_ahead(due[key])
    ]
    return replace(
        owned,
        changes=tuple(replace(c, replaced=True) if c.key in again else c for c in owned.changes),
        findings=(*owned.findings, *refusals),
    )


def _write(world: World, d: Desired, catalog: Catalog, now: datetime) -> ApiRequest:
    """The request that applies `d`: it ends the pause of a canary where the applier would."""
    live = world.get(d.key)
    if live is None or not by_canary(d, live, steered=False):
        return _apply(d, catalog)
    tried = world.fork().handle(_apply(held_back(d, live), catalog), now).body
    return _apply(as_sent(d, live, tried), catalog)


@dataclass(frozen=True, slots=True, kw_only=True)
class Played:
    """The forecast of the rollouts of a plan, findings on those that were not played, and the
    reasons why the effect of objects is unknown."""

    forecast: Forecast | None = None
    findings: tuple[Finding, ...] = ()
    unknown: Mapping[ObjectKey, str] = field(default_factory=dict)


def play(
    world: World,
    changes: Sequence[ObjectChange],
    target: PlanSide,
    catalog: Catalog,
    now: datetime,
    gates: Gates,
    *,
    live: bool,
    known: Sequence[Finding] = (),
) -> Played:
    """Play the rollouts that `changes` start; report each change that the model rejects.

    `live`: the nodes of `world` are those of a cluster, if it shows any. What git says of
    uncertain objects is not all that the cluster gets: their rollouts are not played. Neither are
    those of a unit that rejects the target, by an error that is `known` or found here.
    """
    if live and _hides_nodes(world):
        world, live = world.fork(), False
        add_nodes(world, _NODES, now)
    moved = rollouts_started(changes)
    if moved:
        moved |= _heeded(changes)
    before = {c.key: c.before for c in changes if c.key in moved}
    writes: dict[ObjectKey, ApiRequest] = {}
    unplayed: list[Finding] = []
    unknown: dict[ObjectKey, str] = {}
    for d in sorted((d for d in target.objects if d.key in moved), key=lambda d: d.key):
        if d.key in target.uncertain or _was_unread(before[d.key], world.get(d.key)):
            unknown[d.key] = _UNREAD
            continue
        version = _unknown_version(d, before[d.key], world, catalog)
        if version:
            unknown[d.key] = f"version {version} is unknown here"
            unplayed.append(_not_simulated(d, unknown[d.key]))
            continue
        try:
            _ensure_namespace(world, d.key.namespace, catalog, now)
            write = _write(world, d, catalog, now)
            world.fork().handle(write, now)
        except ApiError as error:
            if d.document.unread:
                unknown[d.key] = _UNREAD
                continue
            unplayed += _refused(d, error, world.get(d.key), catalog, gates)
            continue
        writes[d.key] = write
    refused = refusing((*known, *unplayed), target.units)
    rejecting = {key for key, unit in target.units.items() if unit.id in refused}
    taken = [write for key, write in writes.items() if key not in rejecting]
    if not taken:
        return Played(findings=tuple(unplayed), unknown=unknown)
    profile = GENERAL if live and any(map(is_simulated, world.objects(_NODE))) else _REAL
    forecast = predict(world, taken, now, gates=gates, profile=profile, any_node=not live)
    return Played(forecast=forecast, findings=tuple(unplayed), unknown=unknown)


def _was_unread(before: Obj | None, there: Obj | None) -> bool:
    """Return whether a value that was not read keeps an earlier object from the model."""
    return before is not None and there is None and b"${" in encode(before)


def _hides_nodes(world: World) -> bool:
    """Return whether pods run on nodes that are no objects: what these can take is not known."""
    if world.objects(_NODE):
        return False
    return any(pod["spec"].get("nodeName") for pod in world.objects(POD))


def _heeded(changes: Sequence[ObjectChange]) -> frozenset[ObjectKey]:
    """The PodUnavailableBudgets and WorkloadSpreads of a commit: rollouts that it starts heed
    them."""
    written = (c for c in changes if c.kind in (ChangeKind.CREATE, ChangeKind.CONFIGURE))
    return frozenset(c.key for c in written if c.key.group_kind in (BUDGET, SPREAD))


def without_canary(obj: Obj) -> Obj:
    """`obj` as a cluster sees it whose Deployment controller does not know canaries."""
    if obj["kind"] != DEPLOYMENT.kind:
        return obj
    for path in CANARIES:
        obj = drop(obj, path)
    return obj


def _unknown_version(d: Desired, before: Obj | None, world: World, catalog: Catalog) -> str:
    """Return the version that keeps an object from being played, of git now or before; or ""."""
    if not _served(d, catalog):
        return d.version
    if before is None or world.get(d.key) is not None:
        return ""
    _, version = split_api_version(str(before["apiVersion"]))
    return version if catalog.by_kind(d.key.group, version, d.key.kind) is None else ""


def _served(d: Desired, catalog: Catalog) -> bool:
    return catalog.by_kind(d.key.group, d.version, d.key.kind) is not None


def _not_simulated(d: Desired, why: str) -> Finding:
    """GK2109: another version than those whose rollouts can be played."""
    return Finding(
        code="GK2109",
        message=f"{d.key}: {why}, so its rollout is not simulated",
        places=(d.document.place(("apiVersion",)),),
        notes=(("why", "only the cluster knows whether it serves that version"),),
        object=str(d.key),
        severity=Severity.WARNING,
    )


def _losses_unknown(d: Desired, why: str) -> Finding:
    """GK2110: what an object loses that is taken over is not known."""
    return Finding(
        code="GK2110",
        message=f"{d.key}: the fields that it loses when it is taken over are not known",
        places=(d.document.place(("kind",)),),
        notes=(("why", why),),
        object=str(d.key),
        severity=Severity.WARNING,
    )


def loosened_by(
    forecast: Forecast | None, world: World, target: Sequence[Desired], keys: Collection[ObjectKey]
) -> Forecast | None:
    """`forecast` with no more promised of `keys` than an engine keeps whose order is not total.

    `world` is the cluster before.
    """
    if forecast is None or not keys:
        return forecast
    wanted = {d.key: d.obj for d in target if d.key in keys}
    rollouts = tuple(
        loosened(p, wanted[p.key], _pods_of(world, p.key)) if p.key in wanted else p
        for p in forecast.rollouts
    )
    return replace(forecast, rollouts=rollouts)


def _pods_of(world: World, key: ObjectKey) -> Sequence[PodFacts]:
    before = world.get(key)
    return ROLLOUTS[key.group_kind].pods(world, before) if before is not None else ()


def _refused(
    d: Desired, error: ApiError, old: Obj | None, catalog: Catalog, gates: Gates
) -> list[Finding]:
    """Return the findings for a rejected change: from our checks, otherwise from the error."""
    if d.key.group_kind not in JUDGED_HERE and immutable(error):
        return [cannot_change(d, error, old)]
    before = convert(old, d.version) if old is not None else None
    found = list(check_object(d, catalog, gates, old=before))
    place = d.document.place(("spec",), key=True)
    why = unquoted(error, d).message
    finding = Finding(code="GK2102", message=why, places=(place,), object=str(d.key))
    return found or [finding]
