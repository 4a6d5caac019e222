"""Revisions: one version of a pod template each, kept as the exact bytes OpenKruise would write."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.wire.primitives.gojson import RawJSON, compact
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.times import parse_time

REVISION: Final = GroupKind("apps", "ControllerRevision")
_OLDEST: Final = datetime.min.replace(tzinfo=UTC)


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """One ControllerRevision. Two revisions are equal when their data bytes are equal."""

    name: str
    number: int
    data: bytes
    hash_label: str = ""  # label controller.kubernetes.io/hash
    claims_hash: str | None = None  # annotation kruise.io/cloneset-volumeclaimtemplate-hash
    labels: Obj = field(default_factory=dict)
    annotations: Obj = field(default_factory=dict)
    uid: str = ""
    resource_version: str = ""
    created: datetime | None = None
    api_version: str = "apps/v1"

    @property
    def short(self) -> str:
        """The hash part of the name: what `pod-template-hash` carries."""
        return self.name.rpartition("-")[2]


def revision_of(raw: Obj) -> Revision:
    """A Revision from a raw ControllerRevision; data that a server re-ordered is compacted."""
    meta, data = raw["metadata"], raw.get("data")
    notes = meta.get("annotations") or {}
    return Revision(
        name=meta["name"],
        number=int(raw.get("revision") or 0),
        data=bytes(data) if isinstance(data, RawJSON) else compact(data),
        hash_label=(meta.get("labels") or {}).get(wire.HISTORY_HASH, ""),
        claims_hash=notes.get(wire.CLAIMS_HASH),
        labels=meta.get("labels") or {},
        annotations=notes,
        uid=meta.get("uid") or "",
        resource_version=meta.get("resourceVersion") or "",
        created=parse_time(meta.get("creationTimestamp")),
    )


def in_order(revisions: Iterable[Revision]) -> tuple[Revision, ...]:
    """Oldest first: by number, then age, then name."""
    return tuple(sorted(revisions, key=lambda r: (r.number, r.created or _OLDEST, r.name)))


def revision_object(revision: Revision, namespace: str, owner_reference: Obj) -> dict[str, Any]:
    """The ControllerRevision to create for it in `namespace`."""
    return {
        "apiVersion": revision.api_version,
        "kind": REVISION.kind,
        "metadata": {
            "name": revision.name,
            "namespace": namespace,
            "labels": dict(revision.labels),
            "annotations": dict(revision.annotations),
            "ownerReferences": [owner_reference],
        },
        "data": RawJSON(revision.data),
        "revision": revision.number,
    }
