"""Revisions of a CloneSet: which one pods go to, which they come from, which are forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from gitkruise.model.planning.plan import Action, Create, Patch
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.revisions.registration import RevisionOwner, forget, register
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import claims_hash, revision_data
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class RevisionHistory:
    """The outcome of comparing the template with the revisions there are.

    `action` creates the update revision or raises its number; None when it is unchanged.
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
) -> RevisionHistory:
    """Find, revive or create the update revision, and name the current one.

    `revisions` are oldest first; `others` are foreign revisions whose names are taken.
    Source: CloneSet's active revisions.
    """
    count = int(owner.status.get("collisionCount") or 0)
    where = RevisionOwner(owner.namespace, owner.owner_reference)
    found = register(_candidate(owner, count), revisions, others, count, where)
    named, update = owner.status.get("currentRevision"), found.latest
    current = next((r for r in revisions if r.name == named), update)
    return RevisionHistory(
        current=update if current.name == update.name else current,
        update=update,
        known=found.known,
        collision_count=found.collision_count,
        action=found.action,
    )


def _candidate(owner: CloneSetFacts, count: int) -> Revision:
    data = _data(IdentityKey(owner.template))
    hash_text = _hash(data, count)
    template_labels = get(owner.template, "metadata", "labels", default={})
    claims = claims_hash(owner.claim_templates)
    return Revision(
        name=revision_name(owner.name, hash_text),
        number=0,
        data=data,
        hash_label=hash_text,
        claims_hash=claims,
        labels={**template_labels, wire.HISTORY_HASH: hash_text},
        annotations={**owner.annotations, wire.CLAIMS_HASH: claims},
    )


class IdentityKey(Generic[T]):
    """Key of what is remembered about a value that never changes.

    Equal to another only when both hold the very same object, whatever that equals.

    It keeps the object, so that no other can take its place in memory.
    """

    __slots__ = ("value",)

    def __init__(self, value: T) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return other.__class__ is IdentityKey and other.value is self.value


@lru_cache(maxsize=256)
def _data(template: IdentityKey[Obj]) -> bytes:
    """Most rounds see the very template that the round before them saw."""
    return revision_data(template.value)


@lru_cache(maxsize=256)
def _hash(data: bytes, collision_count: int) -> str:
    return revision_hash(data, collision_count)


@lru_cache(maxsize=4096)
def template_of(data: bytes) -> Obj:
    """The pod template inside revision data. Raises ValueError naming what is wrong with it."""
    try:
        template = read_json(data)["spec"]["template"]
        containers = template["spec"]["containers"]
        named = [container["name"] for container in containers]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"revision data holds no pod template: {error!r}") from error
    if not all(named):
        raise ValueError("revision data holds a container without a name")
    return {key: value for key, value in template.items() if key != "$patch"}


def truncate(
    owner: CloneSetFacts, history: RevisionHistory, in_use: Callable[[Revision], bool]
) -> tuple[Action, ...]:
    """Delete the oldest revisions beyond the limit that nothing refers to.

    `in_use` says whether an active pod carries the revision. Source: REV-77.
    """
    live = {history.current.name, history.update.name}
    idle = [r for r in history.known if r.name not in live and r.uid and not in_use(r)]
    surplus = idle[: max(len(idle) - max(owner.history_limit, 0), 0)]
    return forget(surplus, owner.namespace)
