"""Ownership: the one unit that may write a live object, by the object's mark.

The controller and `gitkruise plan` ask `standing`. An object with the mark of another unit is taken
over only when git states that in both places: the validated commit of its owner no longer contains
it, and that of the new unit does. Until then it is unchanged, in whatever order units are read.
"""

from __future__ import annotations

import shlex
from enum import StrEnum
from typing import Final

from gitkruise.errors import Finding
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.sync_round import Owner, SyncSnapshot
from gitkruise.planner.sync.annotations import (
    DIGEST,
    UNIT,
    UNIT_REF,
    annotation,
    opted_out,
)
from gitkruise.printable import shown
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

CODE: Final = "GK2402"
_NAME_MAX: Final = 80
_DELETED: Final = ("metadata", "deletionTimestamp")


class Ownership(StrEnum):
    """The relation of a unit to an object that its commit contains."""

    FREE = "free"  # its own, without a mark, or handed over: the unit may write it
    SHARED = "shared"  # another unit's commit contains it too
    HELD = "held"  # another unit owns it, and git does not state a handover
    STRANGE = "strange"  # its owner is not among the known units


def is_applied(desired: Desired, live: Obj, mark: str) -> bool:
    """Return whether a live object has the marks of an apply of `desired` for the unit `mark`."""
    return mark_of(live) == mark and annotation(live, DIGEST) == desired.digest


def mark_of(obj: Obj) -> str:
    """Return the mark of the unit that owns a live object; "" without one."""
    return str(get(obj, "metadata", "labels", UNIT, default=""))


def ownership(
    live: Obj | None, unit_label: str, *, claimed: bool, owner: Owner | None
) -> Ownership:
    """Return the relation of the unit with `unit_label` to an object that its commit contains.

    `claimed`: the validated commit of another unit contains it. `owner` is the unit whose mark
    `live` has, None when that is not known. Of an unknown owner an object that is being deleted
    needs no handover: it is created again when it is gone.
    """
    if claimed:
        return Ownership.SHARED
    if live is None or mark_of(live) in {"", unit_label}:
        return Ownership.FREE
    if owner is None:
        return Ownership.FREE if get(live, *_DELETED) else Ownership.STRANGE
    if owner.wants:
        return Ownership.SHARED
    return Ownership.HELD if owner.unsettled else Ownership.FREE


def ownership_in(key: ObjectKey, s: SyncSnapshot) -> Ownership:
    """Return the relation of the snapshot's unit to an object of its commit."""
    live = s.live.get(key)
    obj = live.obj if live is not None else None
    return ownership(obj, s.unit_label, claimed=key in s.claimed, owner=s.owners.get(key))


def withheld(key: ObjectKey, s: SyncSnapshot) -> bool:
    """Return whether the snapshot's unit may not write an object of its commit."""
    return ownership_in(key, s) is not Ownership.FREE


def not_applied(key: ObjectKey, s: SyncSnapshot) -> str:
    """Return why an object that the snapshot's unit may not write is not as git says."""
    owner = s.owners.get(key)
    if owner is None or not owner.unsettled:
        return "not applied: another unit owns it, or contains it too"
    return f"not applied: it belongs to unit {owner.unit}, {owner.unsettled}"


def awaits_owner(key: ObjectKey, s: SyncSnapshot) -> bool:
    """Return whether the owner of an object is about to judge a commit that may release it."""
    owner = s.owners.get(key)
    return owner is not None and owner.reads


def conflict_in(d: Desired, s: SyncSnapshot) -> Finding | None:
    """Return GK2402 for an object that the snapshot's unit may not write; otherwise None.

    An object that the unit would leave as it is although it may write it is no conflict. Neither is
    what a unit owns whose newest commit is not live: that commit may release the object, and does
    so before it is taken where it waits for other units alone.
    """
    if awaits_owner(d.key, s) or d.key in s.released:
        return None
    found, live = ownership_in(d.key, s), s.live.get(d.key)
    obj = live.obj if live is not None else None
    if found is Ownership.FREE:
        return None
    if found is not Ownership.SHARED and obj is not None and opted_out(d.obj, obj):
        return None
    if s.newer and obj is not None and mark_of(obj) == s.unit_label:
        return None
    return conflict(d, obj, found, s.unit_label, s.owners.get(d.key))


def conflict(
    d: Desired,
    live: Obj | None,
    found: Ownership,
    unit_label: str,
    owner: Owner | None,
    *,
    planned: bool = False,
) -> Finding:
    """Return GK2402: the owner of an object, what is unchanged, and the way to hand it over.

    `planned`: for a plan, which reads a configuration and runs nothing.
    """
    mark = mark_of(live) if live is not None else ""
    name = _owner_name(live, owner)
    unchanged, release = f"the live {d.key}", _release(d.key)
    if owner is not None and owner.unsettled and found is not Ownership.STRANGE:
        # Its newest commit may have released the object, so that it need not be in two units.
        message = f"{d.key} belongs to {name}, {owner.unsettled}"
        why = "it changes hands when a commit that its owner has taken no longer contains it"
        following, other = owner.next, release
    elif found is Ownership.SHARED:
        holder = "this unit" if mark == unit_label else name
        message = f"{d.key} is in more than one unit" + (f"; {holder} owns it" if mark else "")
        why = "two owners of one object would undo each other's work"
        following, other = "keep it in one unit", ""
    else:
        reads = "plan does not read" if planned else "gitkruise does not run"
        message = f"{d.key} belongs to {name}, which this {reads}"
        why = "it is not known whether that unit still wants it"
        elsewhere = "name the configuration that has it: gitkruise plan --config FILE"
        following = elsewhere if planned else "take it out of that unit, or out of this one"
        other = f"if that unit is gone for good: {release}"
    notes = [("why", why), ("unchanged", unchanged), ("next", following)]
    if other:
        notes.append(("or", other))
    place = d.document.place(("kind",), key=True)
    return Finding(
        code=CODE, message=message, places=(place,), notes=tuple(notes), object=str(d.key)
    )


def _owner_name(live: Obj | None, owner: Owner | None) -> str:
    """Return the owner as users know it; the annotation is a hint where the mark is not known."""
    if owner is not None:
        return f"unit {owner.unit}"
    unit = annotation(live, UNIT_REF) if live is not None else ""
    return f"unit {shown(unit, _NAME_MAX)}" if unit else "another unit"


def _release(key: ObjectKey) -> str:
    """Return the command that takes the mark off a live object: then any unit may take it over."""
    kind = f"{key.kind}.{key.group}".rstrip(".").lower()
    space = f" -n {key.namespace}" if key.namespace else ""
    return f"kubectl label {kind} {shlex.quote(key.name)}{space} {UNIT}-"
