"""Volumes of a pod: one source each, and what each source needs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

from gitkruise.admission.pods.containers import descending_path
from gitkruise.admission.pods.env import FILE_FIELDS, field_problems, resource_field_problems
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Rule,
    Table,
    at_least,
    between,
    exactly_one,
    like,
    need,
    one_of,
    present,
    unique,
)
from gitkruise.admission.rules.field_errors import Path, forbidden, invalid, required
from gitkruise.admission.rules.labels import label_problems
from gitkruise.errors import MapKey, Problem
from gitkruise.wire.kruise.go_types import TYPES
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.values.quantity import parse_quantity

SOURCES: Final = (  # in the order they are looked at
    "emptyDir",
    *(name for name, _, _ in TYPES["Volume"] if name not in ("name", "emptyDir")),
)
_PROJECTED: Final = tuple(name for name, _, _ in TYPES["VolumeProjection"])
_WORDS: Final = ("must specify a volume type", "may not specify more than 1 volume type")
_ONE_SOURCE: Final = "may not specify more than 1 volume type per source"
_ACCESS: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_HOST_PATHS: Final = (
    "DirectoryOrCreate", "Directory", "FileOrCreate", "File", "Socket", "CharDevice", "BlockDevice",
)  # fmt: skip
_MODE: Final = between(0, 0o777, "must be a number between 0 and 0777 (octal), both inclusive")


def _absolute(value: Any, at: Path) -> Iterator[Problem]:
    if value and not value.startswith("/"):
        yield invalid(at, value, "must be an absolute path")


def _no_back_steps(value: Any, at: Path) -> Iterator[Problem]:
    if value and ".." in value.split("/"):
        yield invalid(at, value, "must not contain '..'")


def _items(*path: str) -> tuple[Rule, ...]:
    """Rules of keys that become files."""
    return (
        ((*path, "items", EACH, "key"), (present,)),
        ((*path, "items", EACH, "path"), (present, descending_path)),
        ((*path, "items", EACH, "mode"), (_MODE,)),
    )


def _required(table: dict[str, tuple[str, ...]]) -> tuple[Rule, ...]:
    return tuple(((source, fields), (present,)) for source, fields in table.items())


_RULES: Final = Table(
    (("name",), (present, like(formats.dns_label))),
    *_required({
        "awsElasticBlockStore": ("volumeID",), "gcePersistentDisk": ("pdName",),
        "gitRepo": ("repository",), "glusterfs": ("endpoints", "path"), "nfs": ("server",),
        "iscsi": ("targetPortal", "iqn"), "rbd": ("monitors", "image"), "flexVolume": ("driver",),
        "cinder": ("volumeID",), "cephfs": ("monitors",), "azureFile": ("secretName", "shareName"),
        "azureDisk": ("diskName", "diskURI"), "vsphereVolume": ("volumePath",),
        "quobyte": ("registry", "volume"), "photonPersistentDisk": ("pdID",),
        "portworxVolume": ("volumeID",), "scaleIO": ("gateway", "system", "volumeName"),
        "storageos": ("volumeName",), "csi": ("driver",), "secret": ("secretName",),
        "configMap": ("name",), "persistentVolumeClaim": ("claimName",),
        "ephemeral": ("volumeClaimTemplate",),
    }),
    (("hostPath", "path"), (present, _no_back_steps)),
    (("hostPath", "type"), (one_of(*_HOST_PATHS),)),
    (("nfs", "path"), (present, _absolute)),
    ((("secret", "configMap", "downwardAPI", "projected"), "defaultMode"), (_MODE,)),
    *_items("secret"),
    *_items("configMap"),
    *_items("projected", "sources", EACH, "secret"),
    *_items("projected", "sources", EACH, "configMap"),
    (("projected", "sources", EACH, ("secret", "configMap"), "name"), (present,)),
    (("projected", "sources", EACH, "serviceAccountToken", "path"), (present, descending_path)),
    (
        ("projected", "sources", EACH, "serviceAccountToken", "expirationSeconds"),
        (
            at_least(600, "may not specify a duration less than 10 minutes"),
            between(0, 1 << 32, "may not specify a duration larger than 2^32 seconds"),
        ),
    ),
    (("projected", "sources", EACH, "clusterTrustBundle", "path"), (present, descending_path)),
)  # fmt: skip

CLAIM_RULES: Final = Table(
    (("accessModes",), (need("at least 1 access mode is required"),)),
    (("accessModes", EACH), (one_of(*_ACCESS),)),
    (("storageClassName",), (like(formats.dns_subdomain),)),
    (("volumeMode",), (one_of("Block", "Filesystem"),)),
)


def volume_problems(volumes: Sequence[Obj], at: Path) -> Iterator[Problem]:
    """ValidateVolumes of Kubernetes' core validation."""
    yield from unique(volumes, at, "name")
    for index, volume in enumerate(volumes):
        path = (*at, index)
        yield from exactly_one(volume, SOURCES, path, _WORDS)
        yield from _RULES.problems(volume, path)
        yield from _file_problems(volume.get("downwardAPI") or {}, (*path, "downwardAPI"))
        yield from _projected_problems(volume.get("projected") or {}, (*path, "projected"))
        yield from _size_problems(volume.get("emptyDir") or {}, (*path, "emptyDir"))
        template = (volume.get("ephemeral") or {}).get("volumeClaimTemplate")
        if template is not None:
            yield from _template_problems(template, (*path, "ephemeral", "volumeClaimTemplate"))


def claim_spec_problems(spec: Obj, at: Path) -> Iterator[Problem]:
    """ValidatePersistentVolumeClaimSpec: access modes, a size above 0, known modes."""
    yield from CLAIM_RULES.problems(spec, at)
    size = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    modes = spec.get("accessModes") or ()
    if "ReadWriteOncePod" in modes and len(modes) > 1:
        text = "may not use ReadWriteOncePod with other access modes"
        yield forbidden((*at, "accessModes"), text)
    if size is None:
        yield required((*at, "resources", MapKey("storage")))
    elif parse_quantity(size).value <= 0:
        yield invalid((*at, "resources", "requests", "storage"), size, "must be greater than zero")


def _template_problems(template: Obj, at: Path) -> Iterator[Problem]:
    labels = (template.get("metadata") or {}).get("labels")
    yield from label_problems(labels, (*at, "metadata", "labels"))
    yield from claim_spec_problems(template.get("spec") or {}, (*at, "spec"))


def _size_problems(source: Obj, at: Path) -> Iterator[Problem]:
    limit = source.get("sizeLimit")
    if limit is not None and parse_quantity(limit).value < 0:
        text = "SizeLimit field must be a valid resource quantity"
        yield forbidden((*at, "sizeLimit"), text)
    medium = source.get("medium") or ""
    if medium not in {"", "Memory", "HugePages"} and not medium.startswith("HugePages-"):
        yield invalid((*at, "medium"), medium, "must be Memory or a HugePages medium")


def _file_problems(source: Obj, at: Path) -> Iterator[Problem]:
    """Files of the downward API."""
    for index, item in enumerate(source.get("items") or ()):
        path = (*at, "items", index)
        if not item.get("path"):
            yield required((*path, "path"))
        yield from descending_path(item.get("path"), (*path, "path"))
        yield from _MODE(item.get("mode"), (*path, "mode"))
        field, resource = item.get("fieldRef"), item.get("resourceFieldRef")
        if field is not None:
            yield from field_problems(field, (*path, "fieldRef"), FILE_FIELDS)
            if resource is not None:
                text = "fieldRef and resourceFieldRef can not be specified simultaneously"
                yield invalid(path, "resource", text)
        elif resource is not None:
            yield from resource_field_problems(
                resource, (*path, "resourceFieldRef"), in_volume=True
            )
        else:
            yield required(path, "one of fieldRef and resourceFieldRef is required")


def _projected_problems(projected: Obj, at: Path) -> Iterator[Problem]:
    taken: set[str] = set()
    for index, source in enumerate(projected.get("sources") or ()):
        path = (*at, "sources", index)
        found = [kind for kind in _PROJECTED if source.get(kind) is not None]
        yield from (forbidden((*path, kind), _ONE_SOURCE) for kind in found[1:])
        if not found:
            yield required(path, _WORDS[0])
        yield from _file_problems(source.get("downwardAPI") or {}, (*path, "downwardAPI"))
        for kind in found:
            for name in _paths_of(source[kind]):
                if name in taken:
                    text = "conflicting duplicate paths"
                    yield invalid((*path, kind), name, text)
                taken.add(name)


def _paths_of(source: Obj) -> list[str]:
    listed = [item.get("path") for item in source.get("items") or ()]
    return [path for path in (*listed, source.get("path")) if path]
