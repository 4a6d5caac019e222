"""WorkloadSpread: facts of the object, the subset that a new pod takes, and what is recorded.

Source: API apps.kruise.io of OpenKruise (WS-1 to WS-40).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Final

from gitkruise.errors import BadRequest
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.labels import CLONESET, DEPLOYMENT, REPLICASET, SPREAD, TEMPLATE_HASH
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.gojson import ordered
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_of, key_of, split_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time, parse_times
from gitkruise.wire.values.intstr import IntOrString, UnreadableAmount, resolve
from gitkruise.wire.values.selectors import NOTHING, Selector, label_selector

VERSION: Final = "v1beta1"  # the storage version
MATCHED: Final = "apps.kruise.io/matched-workloadspread"
IGNORE_PATCH: Final = "workloadspread.kruise.io/ignore-patch-existing-pods-metadata"
TARGETS: Final = (CLONESET, DEPLOYMENT, REPLICASET)
ADAPTIVE: Final = "Adaptive"
SCHEDULABLE: Final = "Schedulable"
UNVERSIONED: Final = "versionIgnored"
UNLIMITED: Final = -1
_VERSIONED: Final = (DEPLOYMENT, REPLICASET)
Records = Mapping[str, datetime]  # names of pods, or uids of reviews


@dataclass(frozen=True, slots=True, kw_only=True)
class Subset:
    """One subset of a spec; without a `limit` any number of pods. `required` is a selector term."""

    name: str
    limit: IntOrString | None = None
    required: Obj | None = None
    preferred: tuple[Obj, ...] = ()
    tolerations: tuple[Obj, ...] = ()
    patch: Obj | None = None

    def pods(self, replicas: int) -> int:
        """The most pods of a workload of so many replicas; UNLIMITED without a limit.

        A limit that admission would refuse leaves no room.
        """
        if self.limit is None:
            return UNLIMITED
        try:
            return max(0, resolve(self.limit, replicas, round_up=True))
        except UnreadableAmount:
            return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetStatus:
    """Counts of one subset. `creating` and `deleting` are pods that the webhook let pass, with
    the times of their records."""

    name: str
    replicas: int = 0
    missing: int = 0
    creating: Records = field(default_factory=dict)
    deleting: Records = field(default_factory=dict)
    conditions: tuple[Obj, ...] = ()

    @property
    def schedulable(self) -> bool:
        """Return whether no condition says that its pods cannot be scheduled."""
        found = self.condition(SCHEDULABLE)
        return found is None or found.get("status") != "False"

    @property
    def has_room(self) -> bool:
        return self.missing > 0 or self.missing == UNLIMITED

    def condition(self, type_: str) -> Obj | None:
        return next((one for one in self.conditions if one.get("type") == type_), None)

    def recorded(self, ident: str) -> bool:
        return ident in self.creating or ident in self.deleting

    def within(self, limit: int) -> SubsetStatus:
        """The status with what is missing up to a limit, by what was counted and recorded."""
        if limit == UNLIMITED:
            return replace(self, missing=UNLIMITED, creating={}, deleting={})
        missing = limit - self.replicas + len(self.deleting) - len(self.creating)
        return replace(self, missing=min(max(0, missing), limit))

    def without(self, pod: str) -> SubsetStatus:
        """The status without a pod that was let go and is gone."""
        if pod not in self.deleting:
            return self
        deleting = {name: at for name, at in self.deleting.items() if name != pod}
        return replace(self, deleting=deleting, replicas=max(0, self.replicas - 1))

    def obj(self) -> Obj:
        """The status as it is written, without what is empty."""
        lists: dict[str, Any] = {
            "conditions": list(self.conditions),
            "creatingPods": _records_obj(self.creating),
            "deletingPods": _records_obj(self.deleting),
        }
        counts = {"missingReplicas": self.missing, "replicas": self.replicas}
        return {"name": self.name, **counts, **{k: v for k, v in lists.items() if v}}


@dataclass(frozen=True, slots=True, kw_only=True)
class SpreadFacts:
    """One WorkloadSpread. `reschedule_s` is 0 where pods wait for their subset without end."""

    key: ObjectKey
    uid: str
    resource_version: str
    generation: int
    deleting: bool
    target: ObjectKey
    selector: Selector | None  # None: every pod of the target
    replica_paths: tuple[tuple[str, ...], ...]
    subsets: tuple[Subset, ...]
    reschedule_s: int
    patches_existing: bool
    status: Obj
    versions: Mapping[str, tuple[SubsetStatus, ...]]

    @property
    def name(self) -> str:
        return self.key.name

    def subset(self, name: str) -> Subset | None:
        return next((one for one in self.subsets if one.name == name), None)

    def selects(self, labels: Mapping[str, str]) -> bool:
        """Return whether a pod of the target with these labels is meant."""
        return self.selector is None or self.selector.matches(labels)

    def version_of(self, labels: Mapping[str, str]) -> str:
        """The version that a pod of the target is counted under."""
        versioned = self.target.group_kind in _VERSIONED
        return (labels.get(TEMPLATE_HASH) if versioned else None) or UNVERSIONED

    def statuses(self, version: str, replicas: int, *, gone: str = "") -> tuple[SubsetStatus, ...]:
        """The subsets as counted for a version, within the present limits; empty where it is new.

        Whether pods can be scheduled is the same for all versions. `gone` is a pod that was let go
        and whose name is given again.
        """
        counted = {one.name: one for one in self.versions.get(version, ())}
        listed = self.status.get("subsetStatuses") or ()
        conditions = {one.get("name"): tuple(one.get("conditions") or ()) for one in listed}
        found = []
        for subset in self.subsets:
            new = SubsetStatus(name=subset.name, conditions=conditions.get(subset.name, ()))
            one = counted.get(subset.name, new).without(gone)
            found.append(one.within(subset.pods(replicas)))
        return tuple(found)


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetMatch:
    """Annotation of a pod: its WorkloadSpread and subset. `uid` identifies a pod without a name."""

    spread: str
    subset: str
    uid: str = ""

    @property
    def text(self) -> str:
        """The annotation as OpenKruise writes it."""
        found = {"name": self.spread, "subset": self.subset}
        return ordered({**found, "uid": self.uid} if self.uid else found).decode()


@dataclass(frozen=True, slots=True, kw_only=True)
class SubsetChoice:
    """The subset of a new pod; `status` is to be written first, None where nothing is recorded."""

    subset: Subset
    match: SubsetMatch
    status: Obj | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Division:
    """Active pods of a workload by subset in the order of the spec; those of no subset as ""."""

    spread: str
    subsets: tuple[tuple[str, int], ...]

    @property
    def text(self) -> str:
        """`8 in zone-a, 4 in zone-b`."""
        return ", ".join(f"{count} in {name or 'no subset'}" for name, count in self.subsets)

    @property
    def pods(self) -> int:
        return sum(count for _, count in self.subsets)

    def obj(self) -> Obj:
        """The division as JSON documents show it."""
        listed = [{"name": name, "pods": count} for name, count in self.subsets]
        return {"name": self.spread, "subsets": listed}


# Reading ----------------------------------------------------------------------------------------


def spread_facts(raw: Obj) -> SpreadFacts:
    """Facts of a stored WorkloadSpread, lenient: what cannot be read is as if it were not given."""
    meta, spec, status = raw["metadata"], raw.get("spec") or {}, raw.get("status") or {}
    ref, strategy = spec.get("targetRef") or {}, spec.get("scheduleStrategy") or {}
    group, _ = split_api_version(ref.get("apiVersion") or "")
    paths = get(spec, "targetFilter", "replicasPathList", default=())
    wait = get(strategy, "adaptive", "rescheduleCriticalSeconds", default=0)
    notes = meta.get("annotations") or {}
    key = key_of(raw)
    return SpreadFacts(
        key=key,
        uid=meta.get("uid") or "",
        resource_version=meta.get("resourceVersion") or "",
        generation=meta.get("generation") or 0,
        deleting=bool(meta.get("deletionTimestamp")),
        target=ObjectKey(group, ref.get("kind") or "", key.namespace, ref.get("name") or ""),
        selector=_selector(get(spec, "targetFilter", "selector")),
        replica_paths=tuple(tuple(path.split(".")) for path in paths if path),
        subsets=tuple(_subset(one) for one in spec.get("subsets") or ()),
        reschedule_s=wait if strategy.get("type") == ADAPTIVE else 0,
        patches_existing=notes.get(IGNORE_PATCH, "").lower() != "true",
        status=status,
        versions={
            version: tuple(subset_status(one) for one in found or ())
            for version, found in (status.get("versionedSubsetStatuses") or {}).items()
        },
    )


def _subset(raw: Obj) -> Subset:
    patch = raw.get("patch")
    return Subset(
        name=raw.get("name") or "",
        limit=raw.get("maxReplicas"),
        required=raw.get("requiredNodeSelector"),
        preferred=tuple(raw.get("preferredNodeSelector") or ()),
        tolerations=tuple(raw.get("tolerations") or ()),
        patch=patch if isinstance(patch, Mapping) and patch else None,
    )


def subset_status(raw: Obj) -> SubsetStatus:
    """The status of one subset as written."""
    return SubsetStatus(
        name=raw.get("name") or "",
        replicas=raw.get("replicas") or 0,
        missing=raw.get("missingReplicas") or 0,
        creating=parse_times(raw.get("creatingPods")),
        deleting=parse_times(raw.get("deletingPods")),
        conditions=tuple(raw.get("conditions") or ()),
    )


def _selector(raw: Obj | None) -> Selector | None:
    """A selector that admission would refuse selects nothing."""
    try:
        return label_selector(raw) if raw is not None else None
    except BadRequest:
        return NOTHING


def _records_obj(records: Records) -> Obj:
    return {ident: format_time(records[ident]) for ident in sorted(records)}


def subset_match(notes: Mapping[str, str]) -> SubsetMatch | None:
    """The WorkloadSpread and subset that a pod's annotations name; None where they name no."""
    try:
        raw = read_json(notes.get(MATCHED) or "null")
    except ValueError:
        return None
    if not isinstance(raw, dict):
        return None
    # Go reads the names of fields in any case, and OpenKruise once wrote them in another.
    words = {str(k).lower(): v for k, v in raw.items() if isinstance(v, str)}
    if not words.get("name") or not words.get("subset"):
        return None
    return SubsetMatch(spread=words["name"], subset=words["subset"], uid=words.get("uid", ""))


# Ties between pods, workloads and WorkloadSpreads -----------------------------------------------


def spreads_in(view: ClusterView, namespace: str) -> list[SpreadFacts]:
    """The WorkloadSpreads of a namespace in name order."""
    return [spread_facts(raw) for raw in view.objects(SPREAD, namespace)]


def spread_of(spreads: Iterable[SpreadFacts], target: ObjectKey) -> SpreadFacts | None:
    """The WorkloadSpread of a workload."""
    return next((one for one in spreads if one.target == target and not one.deleting), None)


def spread_of_new_pod(view: ClusterView, pod: Obj, namespace: str) -> SpreadFacts | None:
    """The WorkloadSpread of a pod that is being created."""
    owner = controller_of(pod)
    spreads = spreads_in(view, namespace) if owner is not None else ()
    if owner is None or not spreads:
        return None
    mine = [_owner_key(owner, namespace)]
    above = controller_of(view.get(mine[0]) or {}) if mine[0].group_kind == REPLICASET else None
    mine += [_owner_key(above, namespace)] if above is not None else []
    labels = get(pod, "metadata", "labels", default={})
    found = (s for s in spreads if s.target in mine and s.selects(labels) and not s.deleting)
    return next(found, None)


def _owner_key(owner: Obj, namespace: str) -> ObjectKey:
    """The object that an owner reference names, whatever its version."""
    group, _ = split_api_version(str(owner.get("apiVersion") or ""))
    return ObjectKey(group, str(owner.get("kind") or ""), namespace, str(owner.get("name") or ""))


def replicas_of(view: ClusterView, spread: SpreadFacts) -> int:
    """The replicas of a target; 0 where it is missing."""
    known = spread.target.group_kind in TARGETS
    raw = view.get(spread.target) if known else None
    if raw is None:
        return 0
    if spread.replica_paths:
        found = (get(raw, *path, default=0) for path in spread.replica_paths)
        return sum(n for n in found if isinstance(n, int) and not isinstance(n, bool))
    return int(get(raw, "spec", "replicas", default=1))


def division(spread: SpreadFacts, pods: Iterable[PodFacts]) -> Division:
    """The pods of a target by subset."""
    counts = dict.fromkeys((*(one.name for one in spread.subsets), ""), 0)
    for pod in pods:
        if pod.active and spread.selects(pod.labels):
            match = subset_match(pod.annotations)
            mine = match is not None and match.spread == spread.name
            name = match.subset if match is not None and mine else ""
            counts[name if name in counts else ""] += 1
    listed = ((name, count) for name, count in counts.items() if name or count)
    return Division(spread=spread.name, subsets=tuple(listed))


# Choice and records -----------------------------------------------------------------------------


def choose_subset(
    spread: SpreadFacts, pod: Obj, *, uid: str, replicas: int, now: datetime
) -> SubsetChoice | None:
    """The subset of a new pod and what is recorded of it; None where no subset has room.

    `uid` identifies a pod that has no name yet.
    """
    if len(spread.subsets) == 1 and spread.subsets[0].limit is None:
        return _chosen(spread, spread.subsets[0].name, "", None)
    name = str(get(pod, "metadata", "name") or "")
    version = spread.version_of(get(pod, "metadata", "labels", default={}))
    statuses = spread.statuses(version, replicas, gone=name)
    for one in statuses:
        if name and name in one.creating:
            return _chosen(spread, one.name, "", None)
    found = next((one for one in statuses if one.schedulable and one.has_room), None)
    if found is None or found.missing == UNLIMITED:
        return None if found is None else _chosen(spread, found.name, "", None)
    status = _recorded(spread, version, statuses, found, name or uid, now)
    return _chosen(spread, found.name, "" if name else uid, status)


def _chosen(spread: SpreadFacts, name: str, uid: str, status: Obj | None) -> SubsetChoice | None:
    subset = spread.subset(name)
    if subset is None:
        return None
    match = SubsetMatch(spread=spread.name, subset=name, uid=uid)
    return SubsetChoice(subset=subset, match=match, status=status)


def recorded_creation(spread: SpreadFacts, pod: Obj, *, replicas: int, now: datetime) -> Obj | None:
    """The status after a pod with its subset was created; None where nothing is recorded."""
    meta = pod["metadata"]
    match = subset_match(meta.get("annotations") or {})
    if match is None or controller_of(pod) is None:
        return None
    version, ident = spread.version_of(meta.get("labels") or {}), match.uid or meta["name"]
    statuses = spread.statuses(version, replicas, gone=ident)
    found = next((one for one in statuses if one.name == match.subset), None)
    if found is None or found.missing <= 0 or any(ident in one.creating for one in statuses):
        return None
    return _recorded(spread, version, statuses, found, ident, now)


def _recorded(
    spread: SpreadFacts,
    version: str,
    statuses: Sequence[SubsetStatus],
    found: SubsetStatus,
    ident: str,
    now: datetime,
) -> Obj:
    left = replace(found, missing=found.missing - 1, creating={**found.creating, ident: now})
    return _with_status(spread, version, statuses, left)


def recorded_deletion(spread: SpreadFacts, pod: Obj, *, replicas: int, now: datetime) -> Obj | None:
    """The status after a pod was let go; None where nothing is recorded."""
    meta, phase = pod["metadata"], get(pod, "status", "phase")
    match = subset_match(meta.get("annotations") or {})
    if match is None or meta.get("deletionTimestamp") or phase in ("Succeeded", "Failed"):
        return None
    if controller_of(pod) is None:
        return None
    version = spread.version_of(meta.get("labels") or {})
    statuses = spread.statuses(version, replicas)
    found = next((one for one in statuses if one.name == match.subset), None)
    if found is None or found.missing == UNLIMITED:
        return None
    if any(one.recorded(meta["name"]) for one in statuses):
        return None
    left = replace(found, deleting={**found.deleting, meta["name"]: now})
    subset = spread.subset(match.subset)
    limit = subset.pods(replicas) if subset is not None else UNLIMITED
    return _with_status(spread, version, statuses, left.within(limit))


def _with_status(
    spread: SpreadFacts, version: str, statuses: Sequence[SubsetStatus], changed: SubsetStatus
) -> Obj:
    new = [(changed if one.name == changed.name else one).obj() for one in statuses]
    versions = spread.status.get("versionedSubsetStatuses") or {}
    return {**spread.status, "versionedSubsetStatuses": {**versions, version: new}}
