"""Core types in the places Kruise's CRDs leave open: pod templates, claims, containers, volumes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from gitkruise.wire.primitives.paths import get, put
from gitkruise.wire.schema.nodes import REF_PREFIX, Lookup, Raw

KRUISE: Final = "apps.kruise.io"
_CORE: Final = "io.k8s.api.core.v1."


def _list_of(component: str) -> Raw:
    return {"type": "array", "items": {"$ref": REF_PREFIX + _CORE + component}}


_TEMPLATE: Final[Raw] = {"$ref": REF_PREFIX + _CORE + "PodTemplateSpec"}
_WORKLOAD: Final[Mapping[tuple[str, ...], Raw]] = {
    ("spec", "template"): _TEMPLATE,
    ("spec", "volumeClaimTemplates"): _list_of("PersistentVolumeClaim"),
}
# kind -> path of field names -> schema.
_TYPED: Final[Mapping[str, Mapping[tuple[str, ...], Raw]]] = {
    "CloneSet": _WORKLOAD,
    "StatefulSet": _WORKLOAD,
    "DaemonSet": {("spec", "template"): _TEMPLATE},
    "BroadcastJob": {("spec", "template"): _TEMPLATE},
    "SidecarSet": {("spec", "volumes"): _list_of("Volume")},
}
# Lists whose elements are a core container with some fields of Kruise's own.
_CONTAINERS: Final = {"SidecarSet": (("spec", "containers"), ("spec", "initContainers"))}


def typed_templates(group: str, kind: str, raw: Raw, core: Lookup) -> Raw:
    """The raw schema of a Kruise kind with references to core/v1 types where its CRD is open.

    `core` gives core/v1's components. The very same schema when there is nothing to type.
    """
    if group != KRUISE:
        return raw
    for path, schema in _TYPED.get(kind, {}).items():
        if get(raw, *_schema_path(path)) is not None:  # a CRD may leave all of the spec open
            raw = put(raw, _schema_path(path), schema)
    for path in _CONTAINERS.get(kind, ()):
        at = (*_schema_path(path), "items")
        if get(raw, *at) is None:
            continue
        container = core(_CORE + "Container")
        fields = {**container["properties"], **get(raw, *at, "properties", default={})}
        raw = put(raw, at, {**container, "properties": fields})
    return raw


def _schema_path(path: Sequence[str]) -> tuple[str, ...]:
    return tuple(step for name in path for step in ("properties", name))
