"""The model cluster's volumes: provisions, binds and grows claims, and protects what is in use.

Replaces the volume binder, a provisioner of every storage class, and the protection controllers
of claims and volumes of a real cluster. Matching, reclaiming and protection follow
kube-controller-manager; a class need not exist, and every claim is bound immediately.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_time
from gitkruise.wire.values.quantity import parse_quantity
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report
from gitkruise.world.store.strategies import CLAIM_IN_USE, VOLUME_IN_USE

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

CLAIM: Final = GroupKind("", "PersistentVolumeClaim")
VOLUME: Final = GroupKind("", "PersistentVolume")
_CLASS: Final = GroupKind("storage.k8s.io", "StorageClass")
_POD: Final = GroupKind("", "Pod")
_WRITER: Final = ObjectWriter("system:volume-binder")
_PROVISIONER: Final = "gitkruise.io/simulated"
_BOUND: Final = "pv.kubernetes.io/bind-completed"
_BY_CONTROLLER: Final = "pv.kubernetes.io/bound-by-controller"
_PROVISIONED: Final = "pv.kubernetes.io/provisioned-by"
_ASKED: Final = "volume.kubernetes.io/storage-provisioner"


class VolumeController:
    """Claims and volumes. `run` does what is due at `now`; returns when resting ones are due."""

    def __init__(self, report: Report | None = None) -> None:
        self._backoff = ObjectBackoff(report)
        self._seen: int | None = None
        # Claims that wait for a volume or for the end of their pods, and the pod seen last.
        self._waiting: dict[ObjectKey, None] = {}
        self._going: dict[ObjectKey, ObjectKey | None] = {}

    def run(self, world: World, now: datetime) -> datetime | None:
        """Bind new claims, release claims that no pod uses, reclaim volumes without a claim."""
        self._backoff.retry(now)
        claims, volumes = self._changed(world, CLAIM), self._changed(world, VOLUME)
        seen, self._seen = world.version, world.version
        for key in volumes:
            self._backoff.attempt(key, now, _reclaim, world, key)
        if volumes:
            claims |= self._waiting
        for key in claims:
            self._backoff.attempt(key, now, self._claim, world, key)
        for key in list(self._going):
            self._backoff.attempt(key, now, self._release, world, key)
        if world.version == seen:
            return self._backoff.next()
        # What was just written is looked at in the next run.
        self._seen = seen
        return now

    def _changed(self, world: World, kind: GroupKind) -> dict[ObjectKey, None]:
        """Keys of objects of `kind` that changed or went; at first, of all."""
        if self._seen is not None and not world.state.changed(kind, self._seen):
            return {}
        records = world.changes_since(self._seen)
        if records is None:
            return {key_of(obj): None for obj in world.objects(kind)}
        return {record.key: None for record in records if record.key.group_kind == kind}

    def _claim(self, world: World, key: ObjectKey, now: datetime) -> None:
        claim = world.get(key)
        self._waiting.pop(key, None)
        if claim is None:
            self._going.pop(key, None)
            for volume in _volumes_of(world, key):
                _reclaim(world, key_of(volume), now)
        elif claim["metadata"].get("deletionTimestamp"):
            self._going.setdefault(key, None)
        elif get(claim, "status", "phase") == "Bound":
            _grow(world, claim, now)
        elif get(claim, "status", "phase") in (None, "", "Pending") and not _bind(
            world, claim, now
        ):
            self._waiting[key] = None

    def _release(self, world: World, key: ObjectKey, now: datetime) -> None:
        """Take the finalizer from a deleted claim once no pod uses it."""
        claim = world.get(key)
        if claim is None or not claim["metadata"].get("deletionTimestamp"):
            self._going.pop(key, None)
            return
        blocker = self._going.get(key)
        if blocker is not None and _uses(world.get(blocker), key.name):
            return
        pods = world.objects(_POD, key.namespace)
        blocker = next((key_of(pod) for pod in pods if _uses(pod, key.name)), None)
        self._going[key] = blocker
        if blocker is None:
            _without_finalizer(world, claim, CLAIM_IN_USE, now)


def _uses(pod: Obj | None, claim: str) -> bool:
    """Return whether a kubelet may still use the claim for `pod`."""
    if pod is None or not get(pod, "spec", "nodeName") or get(pod, "status", "phase") in FINISHED:
        return False
    volumes = get(pod, "spec", "volumes", default=())
    return any(get(v, "persistentVolumeClaim", "claimName") == claim for v in volumes)


def _bind(world: World, claim: Obj, now: datetime) -> bool:
    """Bind `claim` to a volume that exists or is provisioned; False where it has to wait."""
    asked = get(claim, "spec", "volumeName") or ""
    volume = _named(world, claim, asked) if asked else _matching(world, claim)
    if volume is None:
        if asked or get(claim, "spec", "storageClassName") == "":
            return False
        volume = _provision(world, claim, now)
    elif get(volume, "spec", "claimRef", "uid") != claim["metadata"]["uid"]:
        spec = {**volume["spec"], "claimRef": _reference(claim)}
        volume = _WRITER.update(world, {**volume, "spec": spec}, now)
    status = {**(volume.get("status") or {}), "phase": "Bound"}
    status["lastPhaseTransitionTime"] = format_time(now)
    volume = _WRITER.update(world, {**volume, "status": status}, now, subresource="status")
    name = volume["metadata"]["name"]
    made = _bound_claim(claim, name, get(volume, "spec", "capacity", default={}))
    stored = _WRITER.update(world, made, now)
    _WRITER.update(world, {**stored, "status": made["status"]}, now, subresource="status")
    return True


def _grow(world: World, claim: Obj, now: datetime) -> None:
    """Give a bound claim the size that it asks for by now, as a driver that expands online does.

    A class that does not allow expansion keeps the size.
    """
    asked = _capacity(claim)
    has = get(claim, "status", "capacity", "storage", default="0")
    volume = world.get(ObjectKey(*VOLUME, "", get(claim, "spec", "volumeName") or ""))
    if volume is None or parse_quantity(asked["storage"]).value <= parse_quantity(has).value:
        return
    kind = world.get(ObjectKey(*_CLASS, "", get(claim, "spec", "storageClassName") or ""))
    if kind is not None and not kind.get("allowVolumeExpansion"):
        return
    spec = {**volume["spec"], "capacity": {**get(volume, "spec", "capacity", default={}), **asked}}
    _WRITER.update(world, {**volume, "spec": spec}, now)
    status = {**claim["status"], "capacity": {**(claim["status"].get("capacity") or {}), **asked}}
    _WRITER.update(world, {**claim, "status": status}, now, subresource="status")


def _bound_claim(claim: Obj, volume: str, capacity: Obj) -> dict[str, Any]:
    modes = get(claim, "spec", "accessModes", default=[])
    status = {"phase": "Bound", "accessModes": modes, "capacity": capacity}
    meta = claim["metadata"]
    notes = {**(meta.get("annotations") or {}), _BOUND: "yes", _BY_CONTROLLER: "yes"}
    if volume == _name_of(claim):
        notes[_ASKED] = _PROVISIONER
    spec = {**claim["spec"], "volumeName": volume}
    return {**claim, "metadata": {**meta, "annotations": notes}, "spec": spec, "status": status}


def _capacity(claim: Obj) -> dict[str, Any]:
    asked = get(claim, "spec", "resources", "requests", "storage", default="0")
    return {"storage": asked}


def _reference(claim: Obj) -> dict[str, Any]:
    meta = claim["metadata"]
    fields = ("namespace", "name", "uid", "resourceVersion")
    return {
        "apiVersion": "v1",
        "kind": CLAIM.kind,
        **{name: meta[name] for name in fields},
    }


def _named(world: World, claim: Obj, name: str) -> Obj | None:
    volume = world.get(ObjectKey(*VOLUME, "", name))
    return volume if volume is not None and _may_take(volume, claim) else None


def _may_take(volume: Obj, claim: Obj) -> bool:
    """Return whether the volume is free, or reserved for this very claim."""
    if volume["metadata"].get("deletionTimestamp"):
        return False
    ref, meta = get(volume, "spec", "claimRef"), claim["metadata"]
    if not ref:
        return get(volume, "status", "phase") in ("Pending", "Available", None)
    named = (ref.get("namespace"), ref.get("name")) == (meta["namespace"], meta["name"])
    return named and ref.get("uid") in (None, "", meta["uid"])


def _matching(world: World, claim: Obj) -> Obj | None:
    """The smallest free volume of the claim's class with its modes and size."""
    fitting = [v for v in world.objects(VOLUME) if _may_take(v, claim) and _fits(v, claim)]
    return min(fitting, key=_size, default=None)


def _fits(volume: Obj, claim: Obj) -> bool:
    asked = claim["spec"]
    same = ("storageClassName", ""), ("volumeMode", "Filesystem")
    if any(get(volume, "spec", k, default=d) != (asked.get(k) or d) for k, d in same):
        return False
    modes = get(volume, "spec", "accessModes", default=())
    wanted = parse_quantity(_capacity(claim)["storage"]).value
    return {*(asked.get("accessModes") or ())} <= {*modes} and _size(volume) >= wanted


def _size(volume: Obj) -> Any:
    return parse_quantity(get(volume, "spec", "capacity", "storage", default="0")).value


def _name_of(claim: Obj) -> str:
    """The name of the volume that is provisioned for the claim."""
    return f"pvc-{claim['metadata']['uid']}"


def _provision(world: World, claim: Obj, now: datetime) -> Obj:
    key, spec = ObjectKey(*VOLUME, "", _name_of(claim)), claim["spec"]
    if (present := world.get(key)) is not None:
        return present  # an earlier attempt got this far
    body: dict[str, Any] = {
        "apiVersion": "v1",
        "kind": VOLUME.kind,
        "metadata": {"name": key.name, "annotations": {_PROVISIONED: _PROVISIONER}},
        "spec": {
            "capacity": _capacity(claim),
            "accessModes": spec.get("accessModes") or [],
            "persistentVolumeReclaimPolicy": "Delete",
            "volumeMode": spec.get("volumeMode") or "Filesystem",
            "claimRef": _reference(claim),
            "csi": {"driver": _PROVISIONER, "volumeHandle": key.name},
        },
    }
    if spec.get("storageClassName"):
        body["spec"]["storageClassName"] = spec["storageClassName"]
    return _WRITER.create(world, body, now)


def _volumes_of(world: World, key: ObjectKey) -> Iterator[Obj]:
    """Volumes that refer to the claim `key`, whatever its uid."""
    for volume in world.objects(VOLUME):
        ref = get(volume, "spec", "claimRef", default={})
        if (ref.get("namespace"), ref.get("name")) == (key.namespace, key.name):
            yield volume


def _reclaim(world: World, key: ObjectKey, now: datetime) -> None:
    """Set the phase of a volume, delete one whose claim is gone, and let a deleted one go."""
    volume = world.get(key)
    if volume is None:
        return
    ref, phase = get(volume, "spec", "claimRef", default={}), get(volume, "status", "phase")
    claim = world.get(ObjectKey(*CLAIM, ref.get("namespace") or "", ref.get("name") or ""))
    held = claim is not None and ref.get("uid") in (None, "", claim["metadata"]["uid"])
    if held:
        return
    wanted = "Released" if ref.get("uid") else "Available"
    if phase != wanted:
        status = {"phase": wanted, "lastPhaseTransitionTime": format_time(now)}
        volume = _WRITER.update(world, {**volume, "status": status}, now, subresource="status")
    if volume["metadata"].get("deletionTimestamp"):
        _without_finalizer(world, volume, VOLUME_IN_USE, now)
    elif wanted == "Released" and get(volume, "spec", "persistentVolumeReclaimPolicy") == "Delete":
        _WRITER.delete(world, volume, now)


def _without_finalizer(world: World, obj: Obj, finalizer: str, now: datetime) -> None:
    left = [name for name in obj["metadata"].get("finalizers") or () if name != finalizer]
    if len(left) < len(obj["metadata"].get("finalizers") or ()):
        _WRITER.update(world, {**obj, "metadata": {**obj["metadata"], "finalizers": left}}, now)
