"""Objects that may be deleted because git no longer contains them, and guards against deletion."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Final

from gitkruise.errors import Finding, Severity
from gitkruise.model.gitops.change import ObjectChange
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import APPROVAL
from gitkruise.model.gitops.sync_round import Live, PruneRules, SyncSnapshot
from gitkruise.model.workloads.labels import CLONESET
from gitkruise.planner.sync.annotations import (
    APPROVE,
    HOLD,
    UNIT,
    UNIT_REF,
    annotation,
    kept,
    wants_approval,
)
from gitkruise.planner.sync.apply_order import stage_of
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_duration, parse_time

TRAILER: Final = "Gitkruise-Approve"  # of a commit of the source: the hash of a deletion
# Never deleted while they contain objects of others.
GUARDED: Final = frozenset(
    {GroupKind("", "Namespace"), GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")}
)
# Deleting one of these deletes what it holds; that is never a mere side effect of a commit.
HOLDS_DATA: Final = frozenset(
    {
        *GUARDED,
        GroupKind("", "PersistentVolume"),
        GroupKind("", "PersistentVolumeClaim"),
    }
)
_SMALL: Final = 3  # up to this many deletes the percentage does not count
_LEFT: Final = "left git"
_EVERYTHING: Final = 10**9


@dataclass(frozen=True, slots=True, kw_only=True)
class Prunes:
    """Objects to delete now, reasons why others stay, and hashes of deletions to approve.

    `waits` names the approval that objects wait for which may go with no other guard, `soon` those
    of which it is known in a moment whether they go.
    """

    now: tuple[ObjectKey, ...] = ()
    findings: tuple[Finding, ...] = ()
    asks: frozenset[str] = frozenset()
    waits: str = ""
    soon: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarded:
    """The verdict on objects that left git: `free` to go, `kept` for their own sake, `asking` for
    approval each for its own sake. All of them stay for the reason `never`; all but the kept ones
    wait for approval when they are more than `limit`."""

    never: str = ""
    free: tuple[ObjectKey, ...] = ()
    kept: Mapping[ObjectKey, str] = field(default_factory=dict)
    asking: Mapping[ObjectKey, str] = field(default_factory=dict)
    limit: int = 0
    too_many: bool = False


def rules_at_end(policy: str, limit: int) -> PruneRules:
    """Return the rules by which the objects of a unit go that left the configuration: a written
    policy asks for no limit."""
    return PruneRules(
        enabled=policy != "Orphan",
        max_delete=limit if policy == "MirrorPrune" else _EVERYTHING,
        max_delete_percent=100,
        allow_empty=True,
    )


def leaves_nothing(unit: str) -> Finding:
    """Return GK2301, the error of a commit that would delete all objects of a unit."""
    return Finding(
        code="GK2301",
        message=f"this commit leaves nothing in unit {unit}",
        notes=(("next", "if that is meant, set prune.allowEmpty: true on the unit"),),
    )


def guard(
    gone: Mapping[ObjectKey, Obj],
    rules: PruneRules,
    *,
    total: int,
    emptied: bool = False,
    held: frozenset[ObjectKey] = frozenset(),
    agreed: frozenset[str] = frozenset(),
    spared: Mapping[ObjectKey, str] = MappingProxyType({}),
) -> Guarded:
    """Return what the guards of a unit say of objects that left git, for controller and plan.

    `total` counts the unit's objects, those that go included; `emptied`: git wants none.
    Deletions in `agreed` (uids) were approved before. `spared` are objects that git left alone,
    with the reason.
    """
    if not rules.enabled:
        return Guarded(never="prune.enabled is off")
    if emptied and not rules.allow_empty:
        return Guarded(never="the unit would be EMPTY")
    marked = dict.fromkeys(held & gone.keys(), f"annotation {HOLD}")
    reasons = {**marked, **spared}
    held_back = {
        key: why for key, obj in gone.items() if (why := kept(obj) or reasons.get(key, ""))
    }
    free = [key for key in gone if key not in held_back]
    rest = [key for key in free if uid_of(gone[key]) not in agreed]
    asking = {key: why for key in rest if (why := asks(key, gone[key]))}
    limit = limit_of(rules, total)
    return Guarded(
        free=tuple(free),
        kept=held_back,
        asking=asking,
        limit=limit,
        too_many=len(rest) - len(asking) > limit,
    )


def leaving(s: SyncSnapshot) -> frozenset[ObjectKey]:
    """Return the unit's objects that git no longer contains: they are to be deleted, or another
    unit takes them.

    Only what carries the unit's label at this moment is the unit's, and only with the annotation:
    `kubectl expose` copies the labels of what it exposes.
    """
    if not s.prune.enabled:
        return frozenset()
    gone = s.inventory - s.desired.by_key().keys()
    return frozenset(key for key in gone if _is_ours(s, key))


def choose_prunes(s: SyncSnapshot) -> Prunes:
    """Objects that git no longer contains and that may be deleted, foundations last."""
    ours = leaving(s) - s.claimed
    if not ours or not s.inventory_complete:
        return Prunes()
    gone = {
        key: s.live[key].obj for key in sorted(ours, key=lambda k: (-stage_of(k.group_kind), k))
    }
    if s.prune_held and s.prune_soon:
        return Prunes(soon=f"{_and_more(gone)} {_LEFT}: {s.prune_held}")
    if s.prune_held:
        return Prunes(findings=(_held(tuple(gone), s.prune_held),))
    verdict = guard(
        gone, s.prune, total=len(s.inventory), emptied=not s.desired.objects,
        held=s.held, agreed=s.agreed, spared=s.spared,
    )  # fmt: skip
    if verdict.never:
        return Prunes(findings=(_empty(len(gone)),))
    chosen = _unapproved(s, verdict)
    if not verdict.kept:
        return chosen
    return replace(chosen, findings=(_kept(verdict.kept), *chosen.findings))


def _unapproved(s: SyncSnapshot, verdict: Guarded) -> Prunes:
    """All or nothing above the unit's limits, and what holds data never without being asked.

    What a person agreed to, by the hash of exactly these objects, is deleted all the same.
    """
    rest = [key for key in verdict.free if uid_of(s.live[key].obj) not in s.agreed]
    doubtful = rest if verdict.too_many else list(verdict.asking)
    mark = prune_hash(s.unit_label, {key: s.live[key].obj for key in doubtful})
    if not doubtful or mark in s.approved:
        return Prunes(now=verdict.free)
    how, total = _approval(mark, s.desired.commit), len(s.inventory)
    if verdict.too_many:
        why = f"deletion of {len(rest)} of {total} objects, limit {verdict.limit}"
        finding = _too_many(rest, total, verdict.limit, how)
    else:
        why = f"deletion of {_and_more(verdict.asking)}: {next(iter(verdict.asking.values()))}"
        finding = _asks(verdict.asking, how)
    return Prunes(
        now=tuple(key for key in verdict.free if key not in doubtful),
        findings=(finding,),
        asks=frozenset({mark}),
        waits=awaited_approval(why, mark, s.desired.commit),
    )


def awaited_approval(why: str, mark: str, commit: GitCommit) -> str:
    """Return what a unit at `commit` waits for until the hash `mark` is approved, and how to
    approve it."""
    how = f'git commit --allow-empty -m Agreed --trailer "{TRAILER}: {mark}"'
    return f"{APPROVAL}{why}; {_by_annotation(mark) if commit.artifact else how})"


def prune_hash(label: str, objects: Mapping[ObjectKey, Obj]) -> str:
    """Hash of one deletion: of these live objects of the unit with `label`. 12 hex digits.

    An object that is recreated under the same name is another one, so that an approval never
    holds for more than what its author saw.
    """
    lines = [label, *(f"{key} {uid_of(objects[key])}" for key in sorted(objects))]
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()[:12]


def ending(live: Mapping[ObjectKey, Live], wanted: Iterable[ObjectKey]) -> list[ObjectKey]:
    """Return the objects of `live` that git lacks and that are being deleted, in order."""
    gone = sorted(live.keys() - set(wanted))
    return [key for key in gone if live[key].obj["metadata"].get("deletionTimestamp")]


def lingering(
    live: Mapping[ObjectKey, Live], wanted: Iterable[ObjectKey], now: datetime, limit: timedelta
) -> tuple[Finding | None, datetime | None]:
    """(objects that still exist `limit` after their deletion, time of the next one).

    A deletion that waits for finalizers is unfinished work, not a success.
    """
    ends = {
        key: since + limit
        for key in ending(live, wanted)
        if (since := parse_time(live[key].obj["metadata"].get("deletionTimestamp")))
    }
    late = [key for key, end in ends.items() if end <= now]
    due = min((end for end in ends.values() if end > now), default=None)
    return (_lingers(live, late, limit) if late else None), due


def _is_ours(s: SyncSnapshot, key: ObjectKey) -> bool:
    live = s.live.get(key)
    if live is None:
        return False
    meta = live.obj["metadata"]
    applied = get(meta, "labels", UNIT) == s.unit_label and annotation(live.obj, UNIT_REF)
    return bool(applied) and not meta.get("deletionTimestamp")


def uid_of(obj: Obj) -> str:
    uid: str = obj["metadata"].get("uid") or ""
    return uid


def stays(change: ObjectChange) -> str:
    """Return why an object that leaves git is not deleted; "" when nothing forbids it."""
    return change.spared or (kept(change.before) if change.before else "") or change.held


def asks(key: ObjectKey, obj: Obj) -> str:
    """Return why the deletion of an object needs approval; "" when it needs none."""
    return holds_data(key, obj) or wants_approval(obj)


def holds_data(key: ObjectKey, obj: Obj) -> str:
    """Return what is lost with an object; "" when it can be created again as it was.

    Claims of a CloneSet belong to it, those of a StatefulSet where it says so: the garbage
    collector deletes them with it, and their volumes go with them.
    """
    if key.group_kind in HOLDS_DATA:
        return "deleting it would delete what it holds"
    claims = get(obj, "spec", "volumeClaimTemplates")
    retained = get(obj, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
    if claims and (key.group_kind == CLONESET or retained == "Delete"):
        return "deleting it would delete the volumes of its pods"
    return ""


def may_be_of(problem: str, key: ObjectKey) -> bool:
    """Return whether a problem in the record of a unit may be about the deletion of this object:
    it is not about that of one other object."""
    return str(key) in problem or _LEFT not in problem or f" more {_LEFT}" in problem


def limit_of(rules: PruneRules, total: int) -> int:
    """So many of a unit's `total` objects may be deleted without being asked."""
    by_percent = total * rules.max_delete_percent // 100
    return max(min(rules.max_delete, by_percent), min(_SMALL, rules.max_delete))


def _listed(keys: Sequence[ObjectKey]) -> str:
    return ", ".join(map(str, keys[:5])) + (", …" if len(keys) > 5 else "")


def _and_more(keys: Iterable[ObjectKey]) -> str:
    first, *others = keys
    return f"{first} and {len(others)} more" if others else str(first)


def _approval(mark: str, commit: GitCommit) -> tuple[tuple[str, str], ...]:
    """Return the ways to approve. No user commits to what was imported from an artifact."""
    if commit.artifact:
        return (("next", _by_annotation(mark)),)
    return (
        ("next", f'git commit --allow-empty -m "Delete them" --trailer "{TRAILER}: {mark}"'),
        ("or", _by_annotation(mark)),
    )


def _by_annotation(mark: str) -> str:
    return f"annotate the Unit: {APPROVE}: {mark}"


def _held(gone: Sequence[ObjectKey], why: str) -> Finding:
    return Finding(
        code="GK2305",
        message=f"{_and_more(gone)} {_LEFT} and stays for now: {why}",
        notes=(("why", "nothing is deleted by what may not be git's last word"),),
        severity=Severity.WARNING,
    )


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
    why = next(iter(protected.values()))
    return Finding(
        code="GK2302",
        message=f"{_and_more(protected)} {_LEFT} but stays in the cluster: {why}",
        notes=(("next", "delete by hand what you no longer want"),),
        severity=Severity.WARNING,
    )


def _asks(asking: Mapping[ObjectKey, str], how: tuple[tuple[str, str], ...]) -> Finding:
    why = next(iter(asking.values()))
    return Finding(
        code="GK2304",
        message=f"{_and_more(asking)} {_LEFT} and waits for approval: {why}",
        notes=(("deletes", _listed(list(asking))), *how),
        severity=Severity.WARNING,
    )


def _too_many(
    deletable: Sequence[ObjectKey], total: int, limit: int, how: tuple[tuple[str, str], ...]
) -> Finding:
    return Finding(
        code="GK2303",
        message=f"this commit would delete {len(deletable)} of {total} objects (limit {limit})",
        notes=(
            ("deletes", _listed(deletable)),
            ("unchanged", "nothing is deleted; everything else of the commit is applied"),
            *how,
            ("or", "delete in smaller commits, or raise prune.maxDelete and maxDeletePercent"),
        ),
        severity=Severity.WARNING,
    )


def _lingers(
    live: Mapping[ObjectKey, Live], late: Sequence[ObjectKey], limit: timedelta
) -> Finding:
    finalizers = live[late[0]].obj["metadata"].get("finalizers") or ()
    waits = f"waits for {', '.join(finalizers)}" if finalizers else "is still there"
    return Finding(
        code="GK2306",
        message=f"{_and_more(late)} {waits}, {format_duration(limit)} after it was deleted",
        notes=(
            ("why", "the cluster ends a deletion only when every finalizer is gone"),
            ("next", "see to the controller that owns the finalizer; the object goes by itself"),
        ),
        object=str(late[0]),
    )
