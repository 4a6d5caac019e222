"""Registering a revision: the one there is, an older one raised, or a new one under a free name."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from gitkruise.model.planning.plan import Create, Delete, Event, Patch, PatchStep
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.revision import REVISION, Revision, in_order, revision_object
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.primitives.integers import int_or_none
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.values.quantity import parse_quantity

_COLLISIONS_MAX: Final = 1000
_QUANTITY_MAPS: Final = frozenset({"limits", "requests"})
_QUANTITIES: Final = frozenset({"sizeLimit", "divisor"})


class RevisionOwner(NamedTuple):
    """The namespace of revisions and the reference to their owner."""

    namespace: str
    reference: Obj


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionHistory:
    """The outcome of comparing a template with the revisions there are.

    `action` creates the update revision or raises its number; None when it is unchanged.
    `known` are the listed revisions, oldest first, with the update revision as it will be.
    `current` is the known one that the workload's status names, otherwise the update revision.
    """

    current: Revision
    update: Revision
    known: tuple[Revision, ...]
    collision_count: int
    action: Create | Patch | None = None

    @property
    def creating(self) -> bool:
        return isinstance(self.action, Create)

    def of(self, label: str) -> Revision | None:
        """The first known revision whose short name equals that of a pod's label."""
        short = label.rpartition("-")[2]
        return next((r for r in self.known if label and r.short == short), None)

    def forget(
        self, limit: int, namespace: str, in_use: Callable[[Revision], bool]
    ) -> tuple[Delete, ...]:
        """Delete the oldest revisions beyond the limit that nothing refers to.

        `in_use` says whether an active pod carries the revision. Source: REV-77.
        """
        live = {self.current.name, self.update.name}
        idle = [r for r in self.known if r.name not in live and r.uid and not in_use(r)]
        return forget(idle[: max(len(idle) - max(limit, 0), 0)], namespace)


def register(
    made: Revision,
    revisions: Sequence[Revision],
    others: Mapping[str, Revision],
    count: int,
    owner: RevisionOwner,
    *,
    current: str = "",
) -> RevisionHistory:
    """Find, revive or create the revision `made` (its name is that of collision count `count`).

    `revisions` are oldest first; `others` are foreign revisions whose names are taken; `current`
    is the name in the status. Source: OpenKruise's history control, the same for CloneSets and
    SidecarSets.
    """
    found = _registration(made, revisions, others, count, owner)
    return replace(found, current=next((r for r in found.known if r.name == current), found.update))


def _registration(
    made: Revision,
    revisions: Sequence[Revision],
    others: Mapping[str, Revision],
    count: int,
    owner: RevisionOwner,
) -> RevisionHistory:
    numbered = replace(made, number=(revisions[-1].number if revisions else 0) + 1)
    equal = [r for r in revisions if _equal(r, made)]
    if equal:
        return _revive(revisions, equal[-1], numbered, count, owner)
    if revisions and _same_meaning(revisions[-1].data, made.data):
        return _registered(revisions, revisions[-1], count)
    return _create(revisions, others, numbered, count, owner)


def _registered(
    revisions: Sequence[Revision],
    latest: Revision,
    count: int,
    action: Create | Patch | None = None,
) -> RevisionHistory:
    known = in_order({**{r.name: r for r in revisions}, latest.name: latest}.values())
    return RevisionHistory(
        current=latest, update=latest, known=known, collision_count=count, action=action
    )


def _equal(one: Revision, other: Revision) -> bool:
    """Equal data; hash labels count only when both happen to be numbers."""
    left, right = (int_or_none(label, 32) for label in (one.hash_label, other.hash_label))
    if left is not None and right is not None and left != right:
        return False
    return one.data == other.data


def _revive(
    revisions: Sequence[Revision], old: Revision, made: Revision, count: int, owner: RevisionOwner
) -> RevisionHistory:
    """The last revision stays as it is; an older one gets the highest number."""
    if old.name == revisions[-1].name:
        return _registered(revisions, old, count)
    body: dict[str, Any] = {"revision": made.number}
    raised = replace(old, number=made.number)
    if old.claims_hash != made.claims_hash:
        notes = {wire.CLAIMS_HASH: made.claims_hash}
        body["metadata"] = {"annotations": notes}
        raised = replace(
            raised, claims_hash=made.claims_hash, annotations={**old.annotations, **notes}
        )
    return _registered(revisions, raised, count, patch_revision(old, body, owner.namespace))


def patch_revision(
    revision: Revision, body: Obj, namespace: str, *, done: Event | None = None
) -> Patch:
    """A merge patch of a stored revision."""
    return Patch(
        key=ObjectKey(*REVISION, namespace, revision.name),
        version="v1",
        uid=revision.uid,
        resource_version=revision.resource_version,
        steps=(PatchStep(body=body),),
        done=done,
    )


def _create(
    revisions: Sequence[Revision],
    others: Mapping[str, Revision],
    made: Revision,
    count: int,
    owner: RevisionOwner,
) -> RevisionHistory:
    """A new revision under a free name; a taken one counts a collision, unless data agree."""
    taken = {**others, **{r.name: r for r in revisions}}
    name = made.name
    for _ in range(_COLLISIONS_MAX):
        if name not in taken:
            break
        if taken[name].data == made.data:
            return _registered(revisions, taken[name], count)
        count += 1
        name = revision_name(owner.reference["name"], revision_hash(made.data, count))
    named = replace(made, name=name)
    obj = revision_object(named, *owner)
    return _registered(revisions, named, count, Create(obj=obj))


def forget(surplus: Sequence[Revision], namespace: str) -> tuple[Delete, ...]:
    """Delete revisions."""
    return tuple(
        Delete(
            key=ObjectKey(*REVISION, namespace, r.name),
            version="v1",
            uid=r.uid,
            resource_version=r.resource_version,
        )
        for r in surplus
    )


def _same_meaning(one: bytes, other: bytes) -> bool:
    """Safety net for adoption: equal but for null, empty and quantity spellings.

    A revision written by another release must not restart every pod over a spelling.
    """
    try:
        return bool(_meaning(json.loads(one), "") == _meaning(json.loads(other), ""))
    except ValueError:
        return False


def _meaning(value: Any, key: str, *, quantities: bool = False) -> Any:
    if isinstance(value, dict):
        inner = key in _QUANTITY_MAPS
        items = ((k, _meaning(v, k, quantities=inner)) for k, v in value.items())
        return {k: v for k, v in items if v is not None} or None
    if isinstance(value, list):
        return [_meaning(v, "") for v in value] or None
    if isinstance(value, str) and (quantities or key in _QUANTITIES):
        return ("quantity", parse_quantity(value).value)
    return value
