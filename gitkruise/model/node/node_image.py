"""NodeImage: the images to pull on one node, and how far each tag is.

Source: apps.kruise.io v1beta1 of OpenKruise (docs/behaviour/image-pulls.md).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from gitkruise.model.node.wire_shapes import NodeWire, OwnerRef, WireMeta
from gitkruise.model.workloads.labels import KRUISE_GROUP
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey

NODE_IMAGE: Final = GroupKind(KRUISE_GROUP, "NodeImage")
FAKE: Final = "apps.kruise.io/fake-nodeimage"  # label: no node stands behind it
TIMEOUT_S, BACKOFF_LIMIT = 600, 3


class PullPhase(StrEnum):
    """Phases of one tag on one node."""

    WAITING = "Waiting"
    PULLING = "Pulling"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class SecretRef(NodeWire, frozen=True, omit_defaults=True):
    """A pull secret; `mode` `batch` marks a copy that controllers manage."""

    namespace: str = ""
    name: str = ""
    mode: str = ""


class SandboxSettings(NodeWire, frozen=True, omit_defaults=True):
    """Labels and annotations of the sandbox that a runtime pulls for."""

    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class TagPullPolicy(NodeWire, frozen=True, omit_defaults=True):
    """Limits of one tag in seconds; None: its default, or without limit."""

    timeout_s: int | None = msgspec.field(name="timeoutSeconds", default=None)
    backoff_limit: int | None = None
    ttl_s: int | None = msgspec.field(name="ttlSecondsAfterFinished", default=None)
    active_deadline_s: int | None = msgspec.field(name="activeDeadlineSeconds", default=None)


class ImageTag(NodeWire, frozen=True):
    """A tag (or digest) to pull; a new `version` asks for it again."""

    tag: str
    created: datetime | None = msgspec.field(name="createdAt", default=None)
    version: int = 0
    pull_policy: TagPullPolicy = TagPullPolicy()
    owners: tuple[OwnerRef, ...] = msgspec.field(name="ownerReferences", default=())
    image_pull_policy: str = ""  # "" is Always

    def owned_by(self, uid: str) -> bool:
        return any(owner.uid == uid for owner in self.owners)


class NodeImageEntry(NodeWire, frozen=True):
    """The tags of one image name."""

    pull_secrets: tuple[SecretRef, ...] = ()
    sandbox_config: SandboxSettings | None = None
    tags: tuple[ImageTag, ...] = ()

    def tag(self, tag: str) -> ImageTag | None:
        return next((t for t in self.tags if t.tag == tag), None)


class TagStatus(NodeWire, frozen=True):
    """Progress of one tag; final once `completed` is set."""

    tag: str
    phase: str = PullPhase.WAITING.value  # another program may write any text
    progress: int = 0
    started: datetime | None = msgspec.field(name="startTime", default=None)
    completed: datetime | None = msgspec.field(name="completionTime", default=None)
    version: int = 0
    image_id: str = msgspec.field(name="imageID", default="")
    message: str = ""


class TagStatuses(NodeWire, frozen=True):
    tags: tuple[TagStatus, ...] = ()


class NodeImageSpec(NodeWire, frozen=True):
    images: dict[str, NodeImageEntry] = msgspec.field(default_factory=dict)


class NodeImageStatus(NodeWire, frozen=True):
    image_statuses: dict[str, TagStatuses] = msgspec.field(default_factory=dict)


class NodeImage(NodeWire, frozen=True):
    """One observed version of a NodeImage; its name is the node's."""

    metadata: WireMeta
    spec: NodeImageSpec = NodeImageSpec()
    status: NodeImageStatus = NodeImageStatus()

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(*NODE_IMAGE, "", self.metadata.name)

    def tags(self) -> Iterator[tuple[str, ImageTag]]:
        """Each image name with each of its tags, in name order."""
        for name in sorted(self.spec.images):
            for tag in self.spec.images[name].tags:
                yield name, tag

    def status_of(self, name: str, tag: str) -> TagStatus | None:
        """The status of a tag, whatever its version."""
        found = self.status.image_statuses.get(name, TagStatuses())
        return next((s for s in found.tags if s.tag == tag), None)

    def current_status(self, name: str, tag: ImageTag) -> TagStatus | None:
        """The status of the version that the spec asks for; None while there is none."""
        found = self.status_of(name, tag.tag)
        return found if found is not None and found.version == tag.version else None


def node_image(raw: Obj) -> NodeImage:
    """Facts from a raw v1beta1 NodeImage. Raises msgspec.ValidationError on a shape that no API
    server stores."""
    return msgspec.convert(raw, NodeImage)


def counted_status(statuses: Mapping[str, Mapping[str, Obj]]) -> dict[str, Any]:
    """The whole status of a NodeImage for raw tag statuses by image name and tag."""
    every = [status for tags in statuses.values() for status in tags.values()]
    counts = {
        phase.value.lower(): sum(status["phase"] == phase for status in every)
        for phase in PullPhase
    }
    listed = {
        name: {"tags": [tags[tag] for tag in sorted(tags)]}
        for name, tags in sorted(statuses.items())
        if tags
    }
    return {"desired": len(every), **counts, **({"imageStatuses": listed} if listed else {})}
