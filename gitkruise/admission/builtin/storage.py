"""Volumes and their classes at admission: Kubernetes' defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from gitkruise.admission.pods.defaults import fresh
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import one_of
from gitkruise.admission.rules.field_errors import (
    IMMUTABLE,
    Path,
    forbidden,
    invalid,
    required,
    unsupported,
)
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import MapKey, Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.template_defaults import Defaults, fill, round_up
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.values.quantity import parse_quantity

VOLUME: Final = GroupKind("", "PersistentVolume")
CLASS: Final = GroupKind("storage.k8s.io", "StorageClass")
KINDS: Final = frozenset({VOLUME, CLASS})
_SOURCES: Final = (
    "gcePersistentDisk", "awsElasticBlockStore", "hostPath", "glusterfs", "nfs", "rbd",
    "quobyte", "iscsi", "flexVolume", "cinder", "cephfs", "fc", "flocker", "azureFile",
    "vsphereVolume", "azureDisk", "photonPersistentDisk", "portworxVolume", "scaleIO", "local",
    "storageos", "csi",
)  # fmt: skip
_VOLUME: Final = Defaults(
    (
        (("spec",), "persistentVolumeReclaimPolicy", "Retain"),
        (("spec",), "volumeMode", "Filesystem"),
        (("spec", "hostPath"), "type", ""),
        (("spec", "iscsi"), "iscsiInterface", "default"),
        (("spec", "rbd"), "pool", "rbd"),
        (("spec", "rbd"), "user", "admin"),
        (("spec", "rbd"), "keyring", "/etc/ceph/keyring"),
        (("spec", "azureDisk"), "cachingMode", "ReadWrite"),
        (("spec", "azureDisk"), "kind", "Shared"),
        (("spec", "azureDisk"), "fsType", "ext4"),
        (("spec", "azureDisk"), "readOnly", False),
        (("spec", "scaleIO"), "fsType", "xfs"),
        (("spec", "scaleIO"), "storageMode", "ThinProvisioned"),
    )
)
_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_FIXED: Final = ("parameters", "provisioner", "reclaimPolicy")


def default_storage(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Default a class to Delete and Immediate binding, a volume to Retain and Filesystem."""
    if request.key.group_kind == CLASS:
        return {"reclaimPolicy": "Delete", "volumeBindingMode": "Immediate", **request.new}
    out = {**request.new, "spec": fresh(request.new.get("spec") or {})}
    fill(out, _VOLUME)
    round_up(out, (("spec", "capacity"),))
    return out


def storage_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidatePersistentVolume, ValidateStorageClass and their updates."""
    obj: Any = request.obj
    if request.key.group_kind == CLASS:
        yield from _class(obj, request.old)
        return
    spec: Obj = obj.get("spec") or {}
    before = (request.old or {}).get("spec")
    yield from _volume(spec)
    if before is not None:
        yield from _changes(spec, before)


def _class(obj: Obj, old: Obj | None) -> Iterator[Problem]:
    provisioner: Path = ("provisioner",)
    name = obj.get("provisioner") or ""
    if not name:
        yield required(provisioner)
    else:
        texts = formats.qualified_name(name.lower())
        yield from (invalid(provisioner, name.lower(), text) for text in texts)
    if "" in (obj.get("parameters") or {}):
        yield invalid(("parameters",), "", "field can not be empty.")
    yield from one_of("Delete", "Retain")(obj.get("reclaimPolicy"), ("reclaimPolicy",))
    modes = one_of("Immediate", "WaitForFirstConsumer")
    yield from modes(obj.get("volumeBindingMode"), ("volumeBindingMode",))
    if old is None:
        return
    for name in _FIXED:
        if (obj.get(name) or None) != (old.get(name) or None):
            yield forbidden((name,), f"updates to {name} are forbidden.")
    if obj.get("volumeBindingMode") != old.get("volumeBindingMode"):
        yield invalid(("volumeBindingMode",), obj.get("volumeBindingMode"), IMMUTABLE)


def _volume(spec: Obj) -> Iterator[Problem]:
    at: Path = ("spec",)
    modes, capacity = spec.get("accessModes") or (), spec.get("capacity") or {}
    if not modes:
        yield required((*at, "accessModes"))
    for mode in modes:
        if mode not in _MODES:
            yield unsupported((*at, "accessModes"), mode, _MODES)
    if not capacity:
        yield required((*at, "capacity"))
    if set(capacity) != {"storage"}:
        yield unsupported((*at, "capacity"), capacity or None, ("storage",))
    for name, amount in capacity.items():
        here: Path = (*at, "capacity", MapKey(name))
        value = parse_quantity(amount).value
        if value < 0:
            yield invalid(here, int(value), "must be a valid resource quantity")
        if value <= 0:
            yield invalid(here, amount, "must be greater than zero")
    policies = one_of("Delete", "Recycle", "Retain")
    yield from policies(
        spec.get("persistentVolumeReclaimPolicy"), (*at, "persistentVolumeReclaimPolicy")
    )
    yield from _source(spec, at)
    yield from one_of("Block", "Filesystem")(spec.get("volumeMode"), (*at, "volumeMode"))


def _source(spec: Obj, at: Path) -> Iterator[Problem]:
    given = [name for name in _SOURCES if spec.get(name) is not None]
    if not given:
        yield required(at, "must specify a volume type")
    for name in given[1:]:
        yield forbidden((*at, name), "may not specify more than 1 volume type")
    path = (spec.get("hostPath") or {}).get("path")
    if given[:1] == ["hostPath"] and not path:
        yield required((*at, "hostPath", "path"))
    if path and ".." in path.split("/"):
        yield invalid((*at, "hostPath", "path"), path, "must not contain '..'")


def _changes(spec: Obj, before: Obj) -> Iterator[Problem]:
    """Reject changes of a volume's source and mode."""
    if any(spec.get(name) != before.get(name) for name in _SOURCES if name != "csi"):
        text = "spec.persistentvolumesource is immutable after creation"
        yield forbidden(("spec", "persistentvolumesource"), text)
    if spec.get("volumeMode") != before.get("volumeMode"):
        yield invalid(("spec", "volumeMode"), spec.get("volumeMode"), IMMUTABLE)
