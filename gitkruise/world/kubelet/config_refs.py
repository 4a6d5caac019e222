"""References of pods to ConfigMaps and Secrets, and the errors while one is missing.

A forecast knows few of them: with `assumed` only the barriers of OpenKruise, which its controllers
write, are looked for, and all others count as present.

Source: kubelet of Kubernetes 1.34, environment and volume errors, word for word.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.launch_priority import BARRIER_ENV
from gitkruise.planner.pods.inplace import METADATA_FIELD, NOT_OURS
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

_REFS: Final = (
    ("configMapKeyRef", "configMapRef", "ConfigMap"),
    ("secretKeyRef", "secretRef", "Secret"),
)


def missing_environment(view: ClusterView, pod: Obj, spec: Obj, *, assumed: bool = False) -> str:
    """Return why `spec` (a container of `pod`) cannot be configured, or ""."""
    namespace = pod["metadata"]["namespace"]
    for kind, ref, key in _wanted(spec, assumed=assumed):
        if ref.get("optional"):
            continue
        name = ref.get("name") or ""
        found = view.get(ObjectKey("", kind, namespace, name))
        if found is None:
            return f'{kind.lower()} "{name}" not found'
        held = {**(found.get("data") or {}), **(found.get("binaryData") or {})}
        if key and key not in held:
            return f"couldn't find key {key} in {kind} {namespace}/{name}"
    return ""


def _wanted(spec: Obj, *, assumed: bool) -> Iterator[tuple[str, Obj, str]]:
    """(kind, reference, key or "" for the whole object) in the order a kubelet reads them."""
    for source in () if assumed else spec.get("envFrom") or ():
        for _, whole, kind in _REFS:
            if whole in source:
                yield kind, source[whole], ""
    for variable in spec.get("env") or ():
        if assumed and variable.get("name") != BARRIER_ENV:
            continue
        source = variable.get("valueFrom") or {}
        for one, _, kind in _REFS:
            if one in source:
                yield kind, source[one], source[one].get("key") or ""


def missing_volume(view: ClusterView, pod: Obj) -> str:
    """Return why the pod's volumes cannot be mounted, or ""."""
    namespace = pod["metadata"]["namespace"]
    for volume in pod["spec"].get("volumes") or ():
        for field, named, kind in (
            ("configMap", "name", "ConfigMap"),
            ("secret", "secretName", "Secret"),
        ):
            source = volume.get(field)
            if source is None or source.get("optional"):
                continue
            name = source.get(named) or ""
            if view.get(ObjectKey("", kind, namespace, name)) is None:
                return (
                    f'MountVolume.SetUp failed for volume "{volume["name"]}" : '
                    f'{kind.lower()} "{name}" not found'
                )
    return ""


def needs_objects(spec: Obj, *, assumed: bool = False) -> bool:
    """Return whether containers of a pod spec wait for a ConfigMap or Secret."""
    volumes = () if assumed else spec.get("volumes") or ()
    if any("configMap" in volume or "secret" in volume for volume in volumes):
        return True
    listed = (*(spec.get("initContainers") or ()), *(spec.get("containers") or ()))
    return any(True for container in listed for _ in _wanted(container, assumed=assumed))


def reads_metadata(spec: Obj) -> bool:
    """Return whether a variable of a pod spec's containers reads a label or an annotation."""
    return any(
        METADATA_FIELD.fullmatch(get(variable, "valueFrom", "fieldRef", "fieldPath", default=""))
        for container in spec.get("containers") or ()
        for variable in container.get("env") or ()
        if "valueFrom" in variable and variable.get("name") not in NOT_OURS
    )
