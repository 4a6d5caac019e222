"""Revisions of a CloneSet: which one pods go to, which they come from, which are forgotten."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Generic, TypeVar

from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.cloneset import CloneSetFacts
from gitkruise.model.workloads.revision import Revision
from gitkruise.planner.revisions.registration import (
    RevisionHistory,
    RevisionOwner,
    register,
)
from gitkruise.wire.kruise.hashes import revision_hash, revision_name
from gitkruise.wire.kruise.revision_data import claims_hash, revision_data
from gitkruise.wire.primitives.json_text import read_json
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

T = TypeVar("T")


def next_revisions(
    owner: CloneSetFacts, revisions: Sequence[Revision], others: Mapping[str, Revision]
) -> RevisionHistory:
    """Find, revive or create the update revision, and name the current one.

    `revisions` are oldest first; `others` are foreign revisions whose names are taken.
    Source: CloneSet's active revisions.
    """
    count = int(owner.status.get("collisionCount") or 0)
    where = RevisionOwner(owner.namespace, owner.owner_reference)
    named = str(owner.status.get("currentRevision") or "")
    made = _candidate(owner, count)
    return register(made, revisions, others, count, where, current=named)


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
