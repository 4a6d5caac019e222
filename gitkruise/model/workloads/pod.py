"""Pod facts: what planners ask of a pod, decoded once per observed version."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Final, TypeAlias

import msgspec

from gitkruise.model.workloads import labels as wire
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey

POD: Final = GroupKind("", "Pod")
Strings: TypeAlias = Mapping[str, str]
_EMPTY: Final[dict[str, str]] = {}


class LifecycleState(StrEnum):
    """Lifecycle states of a pod label; NONE (no label) counts as Normal."""

    NONE = ""
    PREPARING_NORMAL = "PreparingNormal"
    NORMAL = "Normal"
    PREPARING_UPDATE = "PreparingUpdate"
    UPDATING = "Updating"
    UPDATED = "Updated"
    PREPARING_DELETE = "PreparingDelete"


class _Wire(msgspec.Struct, frozen=True, rename="camel", gc=False):
    """Decoded wire shape: fields not named are skipped."""


class PodCondition(_Wire, frozen=True):
    """A pod condition. `status` is "True", "False" or "Unknown"."""

    type: str
    status: str = ""
    reason: str | None = None
    message: str | None = None
    last_transition_time: datetime | None = None

    @property
    def true(self) -> bool:
        return self.status == "True"


class KeyRef(_Wire, frozen=True):
    name: str | None = None
    key: str | None = None


class FieldRef(_Wire, frozen=True):
    field_path: str = ""


class EnvSource(_Wire, frozen=True):
    field_ref: FieldRef | None = None
    config_map_key_ref: KeyRef | None = None


class EnvVar(_Wire, frozen=True):
    name: str
    value: str | None = None
    value_from: EnvSource | None = None


class Resources(_Wire, frozen=True):
    """Limits and requests by resource name, as written (text or number)."""

    limits: dict[str, str | int | float] | None = None
    requests: dict[str, str | int | float] | None = None


class ResizePolicy(_Wire, frozen=True):
    resource_name: str = ""
    restart_policy: str = ""


class Container(_Wire, frozen=True):
    name: str
    image: str = ""
    env: tuple[EnvVar, ...] | None = None
    resources: Resources | None = None
    resize_policy: tuple[ResizePolicy, ...] | None = None
    restart_policy: str | None = None

    @property
    def native_sidecar(self) -> bool:
        """Return whether an init container keeps running next to the others."""
        return self.restart_policy == "Always"


class WaitingState(_Wire, frozen=True):
    """Reason why a container does not run: ImagePullBackOff, CrashLoopBackOff, …"""

    reason: str = ""
    message: str = ""


class RunningState(_Wire, frozen=True):
    started_at: datetime | None = None


class TerminatedState(_Wire, frozen=True):
    exit_code: int = 0
    started_at: datetime | None = None


class ContainerState(_Wire, frozen=True):
    waiting: WaitingState | None = None
    running: RunningState | None = None
    terminated: TerminatedState | None = None


class ContainerStatus(_Wire, frozen=True):
    name: str
    image: str = ""
    image_id: str = msgspec.field(name="imageID", default="")
    container_id: str = msgspec.field(name="containerID", default="")
    ready: bool = False
    restart_count: int = 0
    resources: Resources | None = None
    state: ContainerState | None = None
    last_state: ContainerState | None = None

    @property
    def ended(self) -> TerminatedState | None:
        """The newest end of a container before the one that runs or waits now."""
        return self.last_state.terminated if self.last_state else None

    @property
    def started(self) -> datetime | None:
        """Start time of the container that runs now."""
        return self.state.running.started_at if self.state and self.state.running else None

    @property
    def waiting(self) -> WaitingState | None:
        return self.state.waiting if self.state else None

    @property
    def terminated(self) -> TerminatedState | None:
        """The end of a container that neither runs nor waits."""
        return self.state.terminated if self.state else None


class _Owner(_Wire, frozen=True):
    uid: str = ""
    kind: str = ""
    controller: bool | None = None


class _Meta(_Wire, frozen=True):
    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None
    finalizers: tuple[str, ...] | None = None
    owner_references: tuple[_Owner, ...] | None = None
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None


class _Gate(_Wire, frozen=True):
    condition_type: str = ""


class _Spec(_Wire, frozen=True):
    node_name: str | None = None
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] | None = None
    readiness_gates: tuple[_Gate, ...] | None = None


class _Status(_Wire, frozen=True):
    phase: str | None = None
    conditions: tuple[PodCondition, ...] | None = None
    container_statuses: tuple[ContainerStatus, ...] | None = None
    init_container_statuses: tuple[ContainerStatus, ...] | None = None


class _Pod(_Wire, frozen=True):
    metadata: _Meta
    spec: _Spec = _Spec()
    status: _Status | None = None


_IDLE: Final = frozenset({LifecycleState.NONE, LifecycleState.NORMAL})
FINISHED: Final = frozenset({"Succeeded", "Failed"})  # phases of a pod that has ended
_set: Final = msgspec.structs.force_setattr


class PodFacts(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """One observed version of a pod. Instants are aware UTC; "" means absent.

    `state` is the lifecycle label as written (it may hold words we do not know). What every round
    asks of every pod is worked out once, at the end.
    """

    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    labels: Strings = _EMPTY
    annotations: Strings = _EMPTY
    finalizers: tuple[str, ...] = ()
    owner_uids: tuple[str, ...] = ()
    controller_uid: str = ""
    created: datetime | None = None
    deleting: datetime | None = None
    node: str = ""
    phase: str = ""
    conditions: tuple[PodCondition, ...] = ()
    ready: bool = False  # condition Ready is True, whatever the phase
    ready_since: datetime | None = None  # its last transition
    in_place: bool | None = None  # condition InPlaceUpdateReady; None without it
    in_place_settled: bool = False  # it is True and says nothing more
    gates: tuple[str, ...] = ()  # readiness gates
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    statuses: tuple[ContainerStatus, ...] = ()
    init_statuses: tuple[ContainerStatus, ...] = ()
    restarts: int = 0  # highest restart count over containers
    sidecar_restarts: int = 0  # the same over init containers that keep running
    revision: str = ""  # label controller-revision-hash, pod-template-hash of a ReplicaSet's
    state: str = ""
    specified_delete: bool = False  # carries the label, whatever its value
    instance_id: str = ""
    deletion_cost: int = 0
    active: bool = False  # counts towards replicas: neither finished nor terminating
    short_revision: str = ""
    in_grace: bool = False  # a grace period runs, or ended without being written
    in_service: bool = False  # Running, Ready, and in no in-place update
    at_rest: bool = False  # in no lifecycle step
    begun: bool = False  # out of service for an update that is not recorded on it yet
    settled: bool = False  # see _settled
    standing: str = ""  # see _standing

    def __post_init__(self) -> None:
        notes = self.annotations
        grace = bool(notes.get(wire.INPLACE_GRACE) or notes.get(wire.INPLACE_GRACE_LEGACY))
        serves = self.ready and self.phase == "Running" and self.in_place is not False
        _set(self, "active", self.deleting is None and self.phase not in FINISHED)
        _set(self, "short_revision", self.revision.rpartition("-")[2])
        _set(self, "in_grace", grace)
        _set(self, "in_service", serves)
        _set(self, "at_rest", self.state in _IDLE)
        _set(
            self,
            "begun",
            self.in_place is False and self.state != LifecycleState.UPDATING and not grace,
        )
        _set(self, "settled", not grace and _settled(self))
        _set(self, "standing", _standing(self))

    @property
    def key(self) -> ObjectKey:
        return ObjectKey("", "Pod", self.namespace, self.name)

    def condition(self, type_: str) -> PodCondition | None:
        for condition in self.conditions:  # asked of every pod in every round: no generator
            if condition.type == type_:
                return condition
        return None

    def on_revision(self, name: str) -> bool:
        """Label equals `name`, or their parts after the last dash do (long and short form)."""
        if not self.revision:
            return False
        return self.revision == name or self.short_revision == name.rpartition("-")[2]

    def update_ready(self, now: datetime, *, min_ready_s: int = 0) -> bool:
        """Running, Ready for longer than `min_ready_s`, and in no in-place update."""
        if not self.in_service or min_ready_s <= 0:
            return self.in_service
        since = self.ready_since
        return since is not None and since + timedelta(seconds=min_ready_s) < now

    def available(self, now: datetime, *, min_ready_s: int = 0) -> bool:
        """Update-ready and in no lifecycle step (OpenKruise's availability)."""
        return self.at_rest and self.update_ready(now, min_ready_s=min_ready_s)


def _settled(pod: PodFacts) -> bool:
    """Nothing to finish: Normal, in service, and no update recorded (or one long since done)."""
    if not pod.at_rest or wire.TEMPLATE_HASH not in pod.labels:
        return False
    for gate in pod.gates:
        if gate == wire.INPLACE_READY and not pod.in_place_settled:
            return False
        if gate == wire.KRUISE_READY and pod.condition(gate) is None:
            return False
    return True


def _standing(pod: PodFacts) -> str:
    """Equal in pods that agree in control, revision, lifecycle state and all that is worked out.

    What every round asks of every pod it asks of one pod of each standing instead.
    """
    marks = (
        pod.active
        + 2 * (pod.deleting is not None)
        + 4 * pod.in_service
        + 8 * pod.specified_delete
        + 16 * pod.in_grace
        + 32 * pod.settled
        + 64 * pod.begun
    )
    return f"{marks} {pod.state} {pod.revision} {pod.controller_uid}"


_decoder: Final = msgspec.json.Decoder(_Pod)


def pod_facts_from_bytes(data: bytes) -> PodFacts:
    """Facts from the JSON of one pod, without making a dict of it.

    Raises msgspec.ValidationError on a shape no API server stores.
    """
    return _facts(_decoder.decode(data))


def pod_facts(raw: Obj, earlier: tuple[Obj, PodFacts] | None = None) -> PodFacts:
    """Facts from a raw pod; the same as from its bytes.

    `earlier` is another version of this pod with its facts: where only metadata changed, as by
    most of a controller's writes, nothing else is read again.
    """
    if earlier is not None:
        before, facts = earlier
        if all(raw.get(part) is before.get(part) for part in ("spec", "status")):
            meta = msgspec.convert(raw["metadata"], _Meta)
            return msgspec.structs.replace(facts, **_of_metadata(meta))
    return _facts(msgspec.convert(raw, _Pod))


def _facts(pod: _Pod) -> PodFacts:
    spec, status = pod.spec, pod.status or _Status()
    conditions, statuses = status.conditions or (), status.container_statuses or ()
    ready = gate = None
    for condition in conditions:
        if condition.type == wire.POD_READY:
            ready = condition
        elif condition.type == wire.INPLACE_READY:
            gate = condition
    return PodFacts(
        **_of_metadata(pod.metadata),
        node=spec.node_name or "",
        phase=status.phase or "",
        conditions=conditions,
        ready=ready is not None and ready.true,
        ready_since=ready.last_transition_time if ready else None,
        in_place=gate.true if gate else None,
        in_place_settled=gate is not None and gate.true and not gate.reason and not gate.message,
        gates=tuple([g.condition_type for g in spec.readiness_gates or ()]),
        containers=spec.containers,
        init_containers=spec.init_containers or (),
        statuses=statuses,
        init_statuses=status.init_container_statuses or (),
        restarts=max([s.restart_count for s in statuses]) if statuses else 0,
        sidecar_restarts=_sidecar_restarts(spec, status) if spec.init_containers else 0,
    )


def _of_metadata(meta: _Meta) -> dict[str, Any]:
    labels, annotations = meta.labels or _EMPTY, meta.annotations or _EMPTY
    owners = meta.owner_references or ()
    return {
        "name": meta.name,
        "namespace": meta.namespace,
        "uid": meta.uid,
        "resource_version": meta.resource_version,
        "labels": labels,
        "annotations": annotations,
        "finalizers": meta.finalizers or (),
        "owner_uids": tuple([o.uid for o in owners]),
        "controller_uid": _controller(owners),
        "created": meta.creation_timestamp,
        "deleting": meta.deletion_timestamp,
        "revision": labels.get(wire.REVISION_HASH, "") or _template_hash(labels, owners),
        "state": labels.get(wire.LIFECYCLE_STATE, ""),
        "specified_delete": wire.SPECIFIED_DELETE in labels,
        "instance_id": labels.get(wire.INSTANCE_ID, ""),
        "deletion_cost": _deletion_cost(annotations.get(wire.DELETION_COST)),
    }


def _template_hash(labels: Mapping[str, str], owners: tuple[_Owner, ...]) -> str:
    """The revision of a Deployment's pod: CloneSets write the same label, for other programs."""
    sets = any(owner.controller and owner.kind == "ReplicaSet" for owner in owners)
    return labels.get(wire.TEMPLATE_HASH, "") if sets else ""


def _controller(owners: tuple[_Owner, ...]) -> str:
    for owner in owners:
        if owner.controller:
            return owner.uid
    return ""


def _sidecar_restarts(spec: _Spec, status: _Status) -> int:
    keeps = {c.name for c in spec.init_containers or () if c.native_sidecar}
    counts = [s.restart_count for s in status.init_container_statuses or () if s.name in keeps]
    return max(counts, default=0)


def _deletion_cost(text: str | None) -> int:
    """int32 without leading `+` or zeros; anything else is 0, as Kubernetes reads it."""
    if not text:
        return 0
    digits = text.removeprefix("-")
    if not (digits.isascii() and digits.isdigit()):
        return 0
    if text != "0" and text[0] != "-" and text[0] not in "123456789":
        return 0
    cost = int(text)
    return cost if -(2**31) <= cost < 2**31 else 0
