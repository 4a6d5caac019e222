"""ImagePullJob and ImageListPullJob: images to pull on many nodes.

Source: apps.kruise.io v1beta1 of OpenKruise (docs/behaviour/image-pulls.md).
"""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Any, Final

import msgspec

from gitkruise.model.node.node_image import BACKOFF_LIMIT, TIMEOUT_S, SandboxSettings
from gitkruise.model.node.wire_shapes import API_VERSION, NodeWire, WireMeta
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.wire.primitives.names import Obj, ObjectKey

PARALLELISM: Final = 1


class CompletionType(StrEnum):
    """End of a job: ALWAYS when every node has a result, NEVER not at all."""

    ALWAYS = "Always"
    NEVER = "Never"


class PullLimits(NodeWire, frozen=True):
    """`pullPolicy` of a job; None is the default."""

    timeout_s: int | None = msgspec.field(name="timeoutSeconds", default=None)
    backoff_limit: int | None = None

    @property
    def effective(self) -> tuple[int, int]:
        """(seconds of an attempt, retries)."""
        timeout, limit = self.timeout_s, self.backoff_limit
        return (
            TIMEOUT_S if timeout is None else timeout,
            BACKOFF_LIMIT if limit is None else limit,
        )


class CompletionPolicy(NodeWire, frozen=True):
    type: str = CompletionType.ALWAYS.value
    active_deadline_s: int | None = msgspec.field(name="activeDeadlineSeconds", default=None)
    ttl_s: int | None = msgspec.field(name="ttlSecondsAfterFinished", default=None)

    @property
    def ends(self) -> bool:
        return self.type == CompletionType.ALWAYS


class PullJobSpec(NodeWire, frozen=True):
    """`selector` holds `names` or a label selector; it and `pod_selector` stay raw."""

    image: str = ""
    images: tuple[str, ...] = ()  # of a list job
    pull_secrets: tuple[str, ...] = ()
    selector: dict[str, Any] | None = None
    pod_selector: dict[str, Any] | None = None
    parallelism: int | str | None = None
    pull_policy: PullLimits = PullLimits()
    completion_policy: CompletionPolicy = CompletionPolicy()
    sandbox_config: SandboxSettings | None = None
    image_pull_policy: str = ""

    @property
    def slots(self) -> int:
        """Nodes that may pull at a time. Raises ValueError for text that is no number."""
        return PARALLELISM if self.parallelism is None else int(self.parallelism)


class PullJobStatus(NodeWire, frozen=True):
    started: datetime | None = msgspec.field(name="startTime", default=None)
    completed: datetime | None = msgspec.field(name="completionTime", default=None)
    desired: int = 0
    active: int = 0
    succeeded: int = 0
    failed: int = 0


class PullJob(NodeWire, frozen=True):
    """One observed version of a job, or of a list job."""

    metadata: WireMeta
    spec: PullJobSpec
    status: PullJobStatus = PullJobStatus()

    @property
    def over(self) -> bool:
        return self.status.completed is not None or self.metadata.deleting is not None

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(*PULL_JOB, self.metadata.namespace, self.metadata.name)

    @property
    def reference(self) -> dict[str, Any]:
        """The reference that a tag keeps of the job."""
        return {
            "apiVersion": API_VERSION,
            "kind": PULL_JOB.kind,
            "namespace": self.metadata.namespace,
            "name": self.metadata.name,
            "uid": self.metadata.uid,
        }


def pull_job(raw: Obj) -> PullJob:
    """Facts from a raw v1beta1 job or list job. Raises msgspec.ValidationError on a shape that no
    API server stores."""
    return msgspec.convert(raw, PullJob)
