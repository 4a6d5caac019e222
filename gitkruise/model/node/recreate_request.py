"""ContainerRecreateRequest: containers of one pod to restart without touching the pod.

Source: apps.kruise.io v1beta1 of OpenKruise (docs/behaviour/container-recreate.md).
"""

from __future__ import annotations

from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final

import msgspec

from gitkruise.model.node.wire_shapes import NodeWire, WireMeta
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.wire.primitives.names import Obj, ObjectKey

POD_UID: Final = "crr.apps.kruise.io/pod-uid"
NODE_NAME: Final = "crr.apps.kruise.io/node-name"
ACTIVE: Final = "crr.apps.kruise.io/active"
UNREADY: Final = "crr.apps.kruise.io/unready-acquired"  # finalizer, and v1alpha1's annotation
DRAINING: Final = "PreRecreateGrace"  # condition
DEADLINE_MIN_S: Final = 3


class RecreatePhase(StrEnum):
    """Phases of a request and of its containers; only containers are Succeeded or Failed."""

    NONE = ""
    PENDING = "Pending"
    RECREATING = "Recreating"
    COMPLETED = "Completed"
    SUCCEEDED = "Succeeded"
    FAILED = "Failed"


class FailurePolicy(StrEnum):
    """Effect of a container that cannot be stopped: the request ends, or goes on."""

    FAIL = "Fail"
    IGNORE = "Ignore"


class StatusContext(NodeWire, frozen=True):
    """The container as the pod reported it when the request was admitted."""

    container_id: str = msgspec.field(name="containerID", default="")
    restart_count: int = 0


class TargetContainer(NodeWire, frozen=True):
    """A container to recreate; `pre_stop` and `ports` are the raw ones of the pod."""

    name: str
    pre_stop: dict[str, Any] | None = None
    ports: tuple[dict[str, Any], ...] = ()
    status_context: StatusContext | None = None


class RecreateStrategy(NodeWire, frozen=True):
    """Order, force and time limits of stops; None where the request leaves it open."""

    failure_policy: str = FailurePolicy.FAIL.value
    ordered_recreate: bool = False
    force_recreate: bool = False
    termination_grace_s: int | None = msgspec.field(
        name="terminationGracePeriodSeconds", default=None
    )
    unready_grace_s: int | None = msgspec.field(name="unreadyGracePeriodSeconds", default=None)
    min_started_s: int = msgspec.field(name="minStartedSeconds", default=0)


class ContainerRecreateState(NodeWire, frozen=True, omit_defaults=True):
    """Progress of one container."""

    name: str
    phase: str  # another program may write any text
    message: str = ""
    is_killed: bool = False


class SnapshotEntry(NodeWire, frozen=True):
    """A container that the manager saw in the pod's status after the request was admitted."""

    name: str
    ready: bool = False
    restart_count: int = 0
    container_id: str = msgspec.field(name="containerID", default="")


class RequestCondition(NodeWire, frozen=True):
    type: str
    status: str = ""
    last_transition_time: datetime | None = None


class RecreateSpec(NodeWire, frozen=True):
    pod_name: str = ""
    containers: tuple[TargetContainer, ...] = ()
    strategy: RecreateStrategy = RecreateStrategy()
    active_deadline_s: int | None = msgspec.field(name="activeDeadlineSeconds", default=None)
    ttl_s: int | None = msgspec.field(name="ttlSecondsAfterFinished", default=None)


class RecreateStatus(NodeWire, frozen=True):
    phase: str = RecreatePhase.NONE.value
    message: str = ""
    completed: datetime | None = msgspec.field(name="completionTime", default=None)
    states: tuple[ContainerRecreateState, ...] = msgspec.field(
        name="containerRecreateStates", default=()
    )
    snapshot: tuple[SnapshotEntry, ...] = msgspec.field(name="containerStatusSnapshot", default=())
    conditions: tuple[RequestCondition, ...] = ()


class RecreateRequest(NodeWire, frozen=True):
    """One observed version of a request."""

    metadata: WireMeta
    spec: RecreateSpec
    status: RecreateStatus = RecreateStatus()

    @property
    def key(self) -> ObjectKey:
        return ObjectKey(*RECREATE, self.metadata.namespace, self.metadata.name)

    @property
    def pod_uid(self) -> str:
        return self.metadata.labels.get(POD_UID, "")

    @property
    def node(self) -> str:
        return self.metadata.labels.get(NODE_NAME, "")

    @property
    def over(self) -> bool:
        """Completed or being deleted; no actor acts on it any more."""
        return self.status.completed is not None or self.metadata.deleting is not None

    @property
    def drain_began(self) -> datetime | None:
        """When the pod was taken out of service for this request; None before that."""
        found = (c for c in self.status.conditions if c.type == DRAINING and c.status == "True")
        return next((c.last_transition_time for c in found), None)

    def after_creation(self, seconds: int) -> datetime | None:
        """Return the instant `seconds` after the creation; None for an object not stored yet."""
        created = self.metadata.created
        return None if created is None else created + timedelta(seconds=seconds)

    def state_of(self, name: str) -> ContainerRecreateState | None:
        return next((s for s in self.status.states if s.name == name), None)


def recreate_request(raw: Obj) -> RecreateRequest:
    """Facts from a raw v1beta1 request. Raises msgspec.ValidationError on a shape that no API
    server stores."""
    return msgspec.convert(raw, RecreateRequest)


def type_problem(spec: object) -> str:
    """Return what makes a raw spec no RecreateSpec, before a schema checked it; "" for a spec."""
    try:
        msgspec.convert(spec, RecreateSpec)
    except msgspec.ValidationError as error:
        return str(error)
    return ""


def states_on_wire(states: tuple[ContainerRecreateState, ...]) -> list[dict[str, Any]]:
    """`states` as `status.containerRecreateStates` carries them."""
    found: list[dict[str, Any]] = msgspec.to_builtins([*states])
    return found
