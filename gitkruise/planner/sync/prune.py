"""What may be deleted because git no longer names it, and when nothing may be."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Final

from gitkruise.errors import Finding
from gitkruise.model.change import SyncSnapshot
from gitkruise.planner.sync.marks import UNIT, kept
from gitkruise.wire.names import GroupKind, ObjectKey
from gitkruise.wire.paths import get

# Deleting one of these deletes what it holds; that is never a side effect of a commit.
_HOLDS_DATA: Final = frozenset(
    {
        GroupKind("", "Namespace"),
        GroupKind("apiextensions.k8s.io", "CustomResourceDefinition"),
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
    }
)
_SMALL: Final = 3  # up to this many deletes the percentage does not count


def choose_prunes(s: SyncSnapshot) -> tuple[tuple[ObjectKey, ...], tuple[Finding, ...]]:
    """(keys to delete now, why others stay). All or nothing above the unit's limits.

    Only what carries the unit's label at this moment is the unit's to delete.
    """
    gone = sorted(key for key in s.inventory - s.desired.by_key().keys() if _is_ours(s, key))
    if not gone or not s.prune.enabled or not s.inventory_complete:
        return (), ()
    if not s.desired.objects and not s.prune.allow_empty:
        return (), (_empty(len(gone)),)
    protected = {key: why for key in gone if (why := _protected(s, key))}
    deletable = tuple(key for key in gone if key not in protected)
    findings = [_kept(protected)] if protected else []
    limit = _limit(s)
    if len(deletable) > limit:
        return (), (*findings, _too_many(deletable, len(s.inventory), limit))
    return deletable, tuple(findings)


def _is_ours(s: SyncSnapshot, key: ObjectKey) -> bool:
    live = s.live.get(key)
    if live is None or key in s.claimed:
        return False
    meta = live.obj["metadata"]
    return get(meta, "labels", UNIT) == s.unit_label and not meta.get("deletionTimestamp")


def _protected(s: SyncSnapshot, key: ObjectKey) -> str:
    if key.group_kind in _HOLDS_DATA:
        return "deleting it would delete what it holds"
    return kept(s.live[key].obj)


def _limit(s: SyncSnapshot) -> int:
    by_percent = len(s.inventory) * s.prune.max_delete_percent // 100
    return max(min(s.prune.max_delete, by_percent), min(_SMALL, s.prune.max_delete))


def _empty(count: int) -> Finding:
    return Finding(
        code="GK2301",
        message=f"this commit leaves nothing in the unit, which has {count} live objects",
        notes=(
            ("unchanged", f"all {count} objects stay as they are"),
            ("next", "if that is meant, set prune.allowEmpty: true on the unit"),
        ),
    )


def _kept(protected: Mapping[ObjectKey, str]) -> Finding:
    key, why = next(iter(protected.items()))
    more = f" and {len(protected) - 1} more" if len(protected) > 1 else ""
    return Finding(
        code="GK2302",
        message=f"{key}{more} left git but stays in the cluster: {why}",
        notes=(("next", "delete by hand what you no longer want"),),
        severity="warning",
    )


def _too_many(deletable: tuple[ObjectKey, ...], total: int, limit: int) -> Finding:
    listed = "\n".join(map(str, deletable))
    mark = hashlib.sha256(listed.encode()).hexdigest()[:8]
    return Finding(
        code="GK2303",
        message=f"this commit would delete {len(deletable)} of {total} objects (limit {limit})",
        notes=(
            ("deletes", ", ".join(map(str, deletable[:5])) + (", …" if len(deletable) > 5 else "")),
            ("unchanged", "nothing is deleted; everything else of the commit is applied"),
            ("next", f"delete in smaller commits, or raise prune.maxDelete (plan {mark})"),
        ),
    )
