"""Revisions: which one pods go to, which one they come from, and which are forgotten."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gitkruise.model import labels as wire
from gitkruise.model.cloneset import CloneSetFacts
from gitkruise.model.plan import Action, Create, Delete, Patch, Step
from gitkruise.model.revision import REVISION, Revision, in_order
from gitkruise.wire.gojson import RawJSON
from gitkruise.wire.hashes import revision_hash, revision_name
from gitkruise.wire.names import Obj, ObjectKey
from gitkruise.wire.normal_form import claims_hash, revision_data
from gitkruise.wire.paths import get
from gitkruise.wire.quantity import parse_quantity

_COLLISIONS_MAX: Final = 1000
_QUANTITY_MAPS: Final = frozenset({"limits", "requests"})
_QUANTITIES: Final = frozenset({"sizeLimit", "divisor"})


@dataclass(frozen=True, slots=True, kw_only=True)
class History:
    """The outcome of comparing the template with the revisions there are.

    `action` creates the update revision or raises its number; None when it stands as it is.
    `known` are the listed revisions, oldest first, with the update revision as it will be.
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


def next_revisions(
    owner: CloneSetFacts, revisions: Sequence[Revision], others: Mapping[str, Revision]
) -> History:
    """Find, revive or create the update revision, and name the current one.

    `revisions` are oldest first; `others` are foreign revisions whose names are taken.
    Source: CloneSet's active revisions.
    """
    count = int(owner.status.get("collisionCount") or 0)
    data = revision_data(owner.template)
    made = _candidate(owner, data, (revisions[-1].number if revisions else 0) + 1, count)
    equal = [r for r in revisions if _equal(r, made)]
    if equal:
        return _revive(owner, revisions, equal[-1], made, count)
    if revisions and _same_meaning(revisions[-1].data, data):
        return _history(owner, revisions, revisions[-1], count, None)
    return _create(owner, revisions, others, made, count)


def _history(
    owner: CloneSetFacts,
    revisions: Sequence[Revision],
    update: Revision,
    count: int,
    action: Create | Patch | None,
) -> History:
    named = owner.status.get("currentRevision")
    current = next((r for r in revisions if r.name == named), update)
    known = in_order({**{r.name: r for r in revisions}, update.name: update}.values())
    return History(
        current=update if current.name == update.name else current,
        update=update,
        known=known,
        collision_count=count,
        action=action,
    )


def _candidate(owner: CloneSetFacts, data: bytes, number: int, count: int) -> Revision:
    hash_text = revision_hash(data, count)
    template_labels = get(owner.template, "metadata", "labels", default={})
    claims = claims_hash(owner.claim_templates)
    return Revision(
        name=revision_name(owner.name, hash_text),
        number=number,
        data=data,
        hash_label=hash_text,
        claims_hash=claims,
        labels={**template_labels, wire.HISTORY_HASH: hash_text},
        annotations={**owner.annotations, wire.CLAIMS_HASH: claims},
    )


def _int32(text: str) -> int | None:
    if not text.removeprefix("-").isdecimal() or not text.isascii():
        return None
    value = int(text)
    return value if -(2**31) <= value < 2**31 else None


def _equal(one: Revision, other: Revision) -> bool:
    """Equal data; hash labels count only when both happen to be numbers."""
    left, right = _int32(one.hash_label), _int32(other.hash_label)
    if left is not None and right is not None and left != right:
        return False
    return one.data == other.data


def _revive(
    owner: CloneSetFacts,
    revisions: Sequence[Revision],
    old: Revision,
    made: Revision,
    count: int,
) -> History:
    """The last revision stays as it is; an older one gets the highest number."""
    if old.name == revisions[-1].name:
        return _history(owner, revisions, old, count, None)
    body: dict[str, Any] = {"revision": made.number}
    if old.claims_hash != made.claims_hash:
        body["metadata"] = {"annotations": {wire.CLAIMS_HASH: made.claims_hash}}
    raised = Revision(
        name=old.name,
        number=made.number,
        data=old.data,
        hash_label=old.hash_label,
        claims_hash=made.claims_hash,
        labels=old.labels,
        annotations={**old.annotations, wire.CLAIMS_HASH: made.claims_hash},
        uid=old.uid,
        resource_version=old.resource_version,
        created=old.created,
    )
    action = Patch(
        key=ObjectKey(*REVISION, owner.namespace, old.name),
        version="v1",
        uid=old.uid,
        resource_version=old.resource_version,
        steps=(Step(body=body),),
    )
    return _history(owner, revisions, raised, count, action)


def _create(
    owner: CloneSetFacts,
    revisions: Sequence[Revision],
    others: Mapping[str, Revision],
    made: Revision,
    count: int,
) -> History:
    """A new revision under a free name; a taken one counts a collision, unless data agree."""
    taken = {**others, **{r.name: r for r in revisions}}
    name = made.name
    for _ in range(_COLLISIONS_MAX):
        if name not in taken:
            break
        if taken[name].data == made.data:
            return _history(owner, revisions, taken[name], count, None)
        count += 1
        name = revision_name(owner.name, revision_hash(made.data, count))
    made = Revision(
        name=name,
        number=made.number,
        data=made.data,
        hash_label=made.hash_label,
        claims_hash=made.claims_hash,
        labels=made.labels,
        annotations=made.annotations,
    )
    obj = {
        "apiVersion": "apps/v1",
        "kind": REVISION.kind,
        "metadata": {
            "name": name,
            "namespace": owner.namespace,
            "labels": dict(made.labels),
            "annotations": dict(made.annotations),
            "ownerReferences": [owner.owner_reference],
        },
        "data": RawJSON(made.data),
        "revision": made.number,
    }
    return _history(owner, revisions, made, count, Create(obj=obj))


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


@lru_cache(maxsize=4096)
def template_of(data: bytes) -> Obj:
    """The pod template inside revision data. Raises ValueError naming what is wrong with it."""
    try:
        template = json.loads(data)["spec"]["template"]
        containers = template["spec"]["containers"]
        named = [container["name"] for container in containers]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"revision data holds no pod template: {error!r}") from error
    assert len(named) == len(containers)
    return {key: value for key, value in template.items() if key != "$patch"}


def truncate(
    owner: CloneSetFacts, history: History, in_use: Callable[[Revision], bool]
) -> tuple[Action, ...]:
    """Delete the oldest revisions beyond the limit that nothing refers to.

    `in_use` says whether any pod, finished and terminating ones included, carries it.
    """
    live = {history.current.name, history.update.name}
    idle = [r for r in history.known if r.name not in live and r.uid and not in_use(r)]
    surplus = idle[: max(len(idle) - max(owner.history_limit, 0), 0)]
    return tuple(
        Delete(
            key=ObjectKey(*REVISION, owner.namespace, r.name),
            version="v1",
            uid=r.uid,
            resource_version=r.resource_version,
        )
        for r in surplus
    )
