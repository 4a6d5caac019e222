"""Observe a CloneSet: one consistent snapshot from a view, live or model alike."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import datetime

from gitkruise.model.cloneset import CLONESET, CloneSetFacts, cloneset_facts
from gitkruise.model.revision import Revision
from gitkruise.model.snapshot import CloneSetSnapshot
from gitkruise.model.view import View
from gitkruise.planner.order import topology_keys
from gitkruise.planner.revisions import REVISION, in_order, revision_of
from gitkruise.wire.names import GroupKind, ObjectKey, controller_of

CLAIM = GroupKind("", "PersistentVolumeClaim")
NODE = GroupKind("", "Node")


def observe_cloneset(view: View, key: ObjectKey, now: datetime) -> CloneSetSnapshot | None:
    """Everything one round may look at; None when the CloneSet is gone.

    Raises ValueError when the stored object is not one an API server admits.
    """
    assert key.group_kind == CLONESET, key
    raw = view.get(key)
    if raw is None:
        return None
    owner = cloneset_facts(raw)
    ours, others = _revisions(view, owner)
    return CloneSetSnapshot(
        key=key,
        owner=owner,
        pods=tuple(sorted(view.pods_of(owner.uid, owner.namespace), key=lambda p: p.name)),
        claims=tuple(view.owned(owner.uid, CLAIM, owner.namespace)),
        revisions=in_order(ours),
        other_revisions={r.name: r for r in others},
        nodes=_nodes(view, owner),
        now=now,
        seed=_seed(owner),
    )


def _revisions(view: View, owner: CloneSetFacts) -> tuple[list[Revision], list[Revision]]:
    """Revisions that are ours by selector and control, and others whose names we might want."""
    ours: list[Revision] = []
    others: list[Revision] = []
    for raw in view.objects(REVISION, owner.namespace):
        controller = controller_of(raw)
        mine = controller is None or controller.get("uid") == owner.uid
        if mine and owner.selector.matches(raw["metadata"].get("labels") or {}):
            ours.append(revision_of(raw))
        elif raw["metadata"]["name"].startswith(f"{owner.name[:_PREFIX_MAX]}-"):
            others.append(revision_of(raw))
    return ours, others


_PREFIX_MAX = 223


def _nodes(view: View, owner: CloneSetFacts) -> Mapping[str, Mapping[str, str]]:
    """Node labels by name, when the template spreads its pods."""
    if not topology_keys(owner.template):
        return {}
    return {
        node["metadata"]["name"]: node["metadata"].get("labels") or {}
        for node in view.objects(NODE, "")
    }


def _seed(owner: CloneSetFacts) -> int:
    """Names follow from who asks and which version of it: nothing is drawn."""
    text = f"{owner.uid}/{owner.resource_version}"
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big")
