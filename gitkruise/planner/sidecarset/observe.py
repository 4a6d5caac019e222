"""Observe a SidecarSet: one consistent snapshot from a view, live or model alike."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Final

from gitkruise.model.planning.snapshot import SidecarSetSnapshot
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_of
from gitkruise.model.workloads.sidecarset import NAMESPACE_LABEL, SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_revision import REVISION_NAMESPACE, SET_LABEL
from gitkruise.planner.sidecarset.matching import matched
from gitkruise.wire.primitives.names import GroupKind, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get

NAMESPACE: Final = GroupKind("", "Namespace")
_PREFIX_MAX: Final = 223  # characters of the owner's name in a revision's


def observe_sidecarset(
    view: ClusterView, key: ObjectKey, now: datetime
) -> SidecarSetSnapshot | None:
    """Everything one round may look at; None when the SidecarSet is gone.

    Raises BadRequest when the stored object is not one an API server admits.
    """
    if key.group_kind != SIDECARSET:
        raise ValueError(f"{key} is no SidecarSet")
    raw = view.get(key)
    if raw is None:
        return None
    owner = sidecarset_facts(raw)
    ours, others = _revisions(view, owner)
    return SidecarSetSnapshot(
        key=key,
        owner=owner,
        pods=matched(owner, _pods(view, owner)),
        revisions=in_order(ours),
        other_revisions={r.name: r for r in others},
        homeless=view.get(ObjectKey(*NAMESPACE, "", REVISION_NAMESPACE)) is None,
        now=now,
    )


def _pods(view: ClusterView, owner: SidecarSetFacts) -> Sequence[PodFacts]:
    """Pods of the namespaces that are meant, in the order of namespace and name."""
    if owner.namespace_selector is None:
        return view.pods("")
    found: list[PodFacts] = []
    for name in _namespaces(view, owner):
        found += view.pods(name)
    return found


def _namespaces(view: ClusterView, owner: SidecarSetFacts) -> list[str]:
    named = _only_namespace(owner)
    if named:
        raw = view.get(ObjectKey(*NAMESPACE, "", named))
        candidates = [] if raw is None else [raw]
    else:
        candidates = list(view.objects(NAMESPACE, ""))
    return [
        raw["metadata"]["name"]
        for raw in candidates
        if owner.in_namespace(raw["metadata"].get("labels") or {})
    ]


def _only_namespace(owner: SidecarSetFacts) -> str:
    """The one namespace that can match, where the selector names it."""
    spec = owner.raw.get("spec") or {}
    name: str = get(spec, "namespaceSelector", "matchLabels", NAMESPACE_LABEL, default="")
    return name or spec.get("namespace") or ""


def _revisions(view: ClusterView, owner: SidecarSetFacts) -> tuple[list[Revision], list[Revision]]:
    """Revisions that are ours by label and control, and others whose names we might want.

    Ownerless ones are ours too. The namespace is searched for them, and for taken names, only
    for a spec not seen before.
    """
    owned = view.owned(owner.uid, REVISION, REVISION_NAMESPACE)
    seen = owner.status.get("observedGeneration") == owner.generation
    if seen and owner.latest_revision in {raw["metadata"]["name"] for raw in owned}:
        return [revision_of(raw) for raw in owned], []
    ours: list[Revision] = []
    others: list[Revision] = []
    for raw in view.objects(REVISION, REVISION_NAMESPACE):
        controller, meta = controller_of(raw), raw["metadata"]
        mine = controller is None or controller.get("uid") == owner.uid
        if mine and (meta.get("labels") or {}).get(SET_LABEL) == owner.name:
            ours.append(revision_of(raw))
        elif meta["name"].startswith(f"{owner.name[:_PREFIX_MAX]}-"):
            others.append(revision_of(raw))
    return ours, others
