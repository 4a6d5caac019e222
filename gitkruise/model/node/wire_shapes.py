"""NodeWire shapes that the kinds of this package share: metadata, and how a field is spelt."""

from __future__ import annotations

from datetime import datetime
from typing import Final

import msgspec

from gitkruise.model.workloads.labels import KRUISE_GROUP

VERSION: Final = "v1beta1"  # the stored one
API_VERSION: Final = f"{KRUISE_GROUP}/{VERSION}"


class NodeWire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Decoded wire shape: fields not named are skipped."""


class OwnerRef(NodeWire, frozen=True):
    """An owner reference, or the ObjectReference that a tag of a NodeImage keeps of its job."""

    uid: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    api_version: str = ""
    controller: bool | None = None


class WireMeta(NodeWire, frozen=True):
    """Metadata of an object; `created` and `deleting` are aware UTC instants."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerRef, ...] = ()
    created: datetime | None = msgspec.field(name="creationTimestamp", default=None)
    deleting: datetime | None = msgspec.field(name="deletionTimestamp", default=None)
