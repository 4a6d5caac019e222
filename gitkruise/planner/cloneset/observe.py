"""Observe a CloneSet: one consistent snapshot from a view, live or model alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Final

from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.planning.budget_matching import budgets_in
from gitkruise.model.planning.snapshot import CloneSetSnapshot
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.cloneset import CloneSetFacts, cloneset_facts
from gitkruise.model.workloads.conditions import FAILED_UPDATE, find
from gitkruise.model.workloads.labels import CLONESET, PULL_JOB
from gitkruise.model.workloads.pod import LifecycleState
from gitkruise.model.workloads.pod_groups import PodGroups
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_of
from gitkruise.planner.cloneset.conflicts import overlaps, taken_ids
from gitkruise.planner.cloneset.create import instance_ids
from gitkruise.planner.cloneset.deletes import instance_id
from gitkruise.planner.pods.order import topology_keys
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_of

CLAIM = GroupKind("", "PersistentVolumeClaim")
NODE = GroupKind("", "Node")
_PREFIX_MAX: Final = 223  # characters of the owner's name in a revision's
_SPARE: Final = 8  # ids looked at beyond those needed, in case some are taken


def observe_cloneset(view: ClusterView, key: ObjectKey, now: datetime) -> CloneSetSnapshot | None:
    """Everything one round may look at; None when the CloneSet is gone.

    Raises ValueError when the stored object is not one an API server admits.
    """
    if key.group_kind != CLONESET:
        raise ValueError(f"{key} is no CloneSet")
    raw = view.get(key)
    if raw is None:
        return None
    owner = cloneset_facts(raw)
    pods = view.pods_of(owner.uid, owner.namespace)
    claims = tuple(view.owned(owner.uid, CLAIM, owner.namespace))
    ours, others = _revisions(view, owner, pods)
    taken = _taken_ids(view, owner, pods, claims)
    return CloneSetSnapshot(
        key=key,
        owner=owner,
        pods=pods,
        claims=claims,
        revisions=in_order(ours),
        other_revisions={r.name: r for r in others},
        nodes=_nodes(view, owner),
        now=now,
        seed=_seed(owner),
        foreign_ids=frozenset(taken),
        conflicts=(*_overlaps(view, owner), *taken.values()),
        pull_jobs=tuple(view.owned(owner.uid, PULL_JOB, owner.namespace)),
        budgets=tuple(budgets_in(view, owner.namespace)),
    )


def _revisions(
    view: ClusterView, owner: CloneSetFacts, pods: PodGroups
) -> tuple[list[Revision], list[Revision]]:
    """Revisions that are ours by selector and control, and others whose names we might want.

    Ownerless ones are ours too. The namespace is searched for them, and for taken names, only
    while something is missing: a namespace may hold ten thousand revisions.
    """
    owned = view.owned(owner.uid, REVISION, owner.namespace)
    if _complete(owner, pods, {str(raw["metadata"]["name"]) for raw in owned}):
        selected = (raw for raw in owned if owner.selects(raw["metadata"].get("labels") or {}))
        return [revision_of(raw) for raw in selected], []
    ours: list[Revision] = []
    others: list[Revision] = []
    prefix = f"{owner.name[:_PREFIX_MAX]}-"
    for raw in view.objects(REVISION, owner.namespace):
        meta = raw["metadata"]
        if owner.selects(meta.get("labels") or {}) and _may_be_ours(raw, owner):
            ours.append(revision_of(raw))
        elif meta["name"].startswith(prefix):
            others.append(revision_of(raw))
    return ours, others


def _may_be_ours(raw: Obj, owner: CloneSetFacts) -> bool:
    """Return whether no other object controls a revision."""
    controller = controller_of(raw)
    return controller is None or controller.get("uid") == owner.uid


def _complete(owner: CloneSetFacts, pods: PodGroups, names: set[str]) -> bool:
    """The spec has been seen before, and all revisions anybody names are among `names`."""
    if owner.status.get("observedGeneration") != owner.generation:
        return False
    short = {name.rpartition("-")[2] for name in names}
    needed = {group.first.short_revision for group in pods.groups if group.first.revision}
    stated = {owner.status.get(key) for key in ("updateRevision", "currentRevision")}
    return stated <= names and needed <= short


def _nodes(view: ClusterView, owner: CloneSetFacts) -> Mapping[str, Mapping[str, str]]:
    """Node labels by name, when the template spreads its pods."""
    if not topology_keys(owner.template):
        return {}
    return {
        node["metadata"]["name"]: node["metadata"].get("labels") or {}
        for node in view.objects(NODE, "")
    }


def _taken_ids(
    view: ClusterView, owner: CloneSetFacts, pods: PodGroups, claims: Sequence[Obj]
) -> dict[str, str]:
    """Of the ids this round may give to new pods, those whose names strangers have; and who."""
    going = LifecycleState.PREPARING_DELETE.value
    here = [group for group in pods.groups if group.first.active and group.first.state != going]
    missing = owner.replicas + resolve_amounts(owner).surge - sum(map(len, here))
    if missing <= 0:
        return {}
    prefix = f"{owner.name}-"
    names = [name for group in pods.groups for name in group.by_name]
    used = {name.removeprefix(prefix) for name in names}
    wanted = {*instance_ids(_seed(owner), missing + _SPARE, taken=used)}
    wanted |= {instance_id(claim) for claim in claims} - used - {""}
    ours = {*names, *(claim["metadata"]["name"] for claim in claims)}
    return taken_ids(view, owner, sorted(wanted), ours)


def _overlaps(view: ClusterView, owner: CloneSetFacts) -> list[str]:
    """Overlapping CloneSets, searched once per spec and again while there are any: a later CloneSet
    reports the overlap itself."""
    failed = find(owner.status.get("conditions") or (), FAILED_UPDATE)
    amiss = failed is not None and failed.get("status") == "True"
    if amiss or owner.status.get("observedGeneration") != owner.generation:
        return overlaps(view, owner)
    return []


def _seed(owner: CloneSetFacts) -> int:
    """Names follow from who asks, and for which spec: nothing is drawn.

    Not from the resourceVersion: a creation whose answer was lost must find the same name again,
    and a preview must foresee it, and both see other resourceVersions than the round that acts.
    """
    text = f"{owner.uid}/{owner.generation}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
