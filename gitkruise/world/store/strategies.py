"""Strategies: the fields that a create, an update and a subresource update may change."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from gitkruise.model.node.qos import qos_class
from gitkruise.wire.catalog.kinds import Kind
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get, put

NAMESPACE: Final = GroupKind("", "Namespace")
POD: Final = GroupKind("", "Pod")
CLAIM_IN_USE: Final = "kubernetes.io/pvc-protection"
VOLUME_IN_USE: Final = "kubernetes.io/pv-protection"
CRD: Final = GroupKind("apiextensions.k8s.io", "CustomResourceDefinition")


def on_create(kind: Kind, obj: Obj) -> Obj:
    """A new object without what only subresources write. Source: the kinds' create strategies."""
    if kind.group_kind in _BORN:
        return _BORN[kind.group_kind](obj)
    if "status" not in kind.subresources:
        return obj
    if kind.crd:
        return {key: value for key, value in obj.items() if key != "status"}
    return {**obj, "status": {}}


def _namespace(obj: Obj) -> Obj:
    """Namespaces are held by their content and labelled with their name."""
    finalizers = list(get(obj, "spec", "finalizers", default=[]))
    return {
        **named_namespace(obj),
        "spec": {
            "finalizers": finalizers if "kubernetes" in finalizers else ["kubernetes", *finalizers]
        },
        "status": {"phase": "Active"},
    }


def named_namespace(obj: Obj) -> Obj:
    """Set the name label; removing it restores it. Source: SetDefaults_Namespace."""
    named: Obj = put(
        obj, ("metadata", "labels", "kubernetes.io/metadata.name"), obj["metadata"]["name"]
    )
    return named


def _pod(obj: Obj) -> Obj:
    return {**obj, "status": {"phase": "Pending", "qosClass": _quality(obj.get("spec") or {})}}


def _claim(obj: Obj) -> Obj:
    return {**_protected(obj, CLAIM_IN_USE), "status": {"phase": "Pending"}}


def _protected(obj: Obj, finalizer: str) -> Obj:
    """Source: admission plugin StorageObjectInUseProtection."""
    present = obj["metadata"].get("finalizers") or ()
    if finalizer in present:
        return obj
    return {**obj, "metadata": {**obj["metadata"], "finalizers": [*present, finalizer]}}


def _volume(obj: Obj) -> Obj:
    since = obj["metadata"]["creationTimestamp"]
    status = {"phase": "Pending", "lastPhaseTransitionTime": since}
    return {**_protected(obj, VOLUME_IN_USE), "status": status}


def _service(obj: Obj) -> Obj:
    return {**obj, "status": {"loadBalancer": {}}}


def _as_sent(obj: Obj) -> Obj:
    return obj


_BORN: Final[Mapping[GroupKind, Callable[[Obj], Obj]]] = {
    NAMESPACE: _namespace,
    POD: _pod,
    GroupKind("", "PersistentVolumeClaim"): _claim,
    GroupKind("", "PersistentVolume"): _volume,
    GroupKind("", "Service"): _service,
    GroupKind("", "Node"): _as_sent,  # a kubelet registers with its status
    CRD: _as_sent,  # its status is made by crds.py
}


def _quality(spec: Mapping[str, Any]) -> str:
    """The class of a new pod; a malformed amount, which has none, is refused after this."""
    try:
        return qos_class(spec)
    except (ValueError, TypeError):
        return "BestEffort"


def on_update(kind: Kind, subresource: str, old: Obj, new: Obj) -> Obj:
    """`new` with everything a write to this (sub)resource cannot change taken from `old`."""
    if subresource:
        return _SUBRESOURCES[subresource](kind, old, new)
    if kind.group_kind == NAMESPACE:
        return named_namespace(_taking(new, old, "status", "spec"))
    return _taking(new, old, "status") if "status" in kind.subresources else new


def _taking(new: Obj, old: Obj, *names: str) -> Obj:
    """`new` with the named top-level fields as they are in `old`."""
    out = {key: value for key, value in new.items() if key not in names}
    out.update({name: old[name] for name in names if name in old})
    return out


def _status(kind: Kind, old: Obj, new: Obj) -> Obj:
    if kind.crd or kind.group_kind == CRD:
        out = {key: value for key, value in old.items() if key != "status"}
        if "status" in new:
            out["status"] = new["status"]
        return {**out, "metadata": _locked(old["metadata"], new["metadata"])}
    if kind.group_kind == POD:
        new = _with_quality(old, _addressed(new))
    if new["metadata"] is old["metadata"]:
        return _taking(new, old, "spec")
    meta = dict(new["metadata"])
    for name in ("ownerReferences", *(("labels",) if kind.group == "apps" else ())):
        meta.pop(name, None)
        if name in old["metadata"]:
            meta[name] = old["metadata"][name]
    return {**_taking(new, old, "spec"), "metadata": meta}


def _addressed(pod: Obj) -> Obj:
    """A pod's address is the first of its addresses. Source: Convert_v1_PodStatus_To_core."""
    status = pod.get("status") or {}
    one, listed = status.get("podIP"), status.get("podIPs")
    if one and (not listed or listed[0].get("ip") != one):
        return {**pod, "status": {**status, "podIPs": [{"ip": one}]}}
    if listed and not one:
        return {**pod, "status": {**status, "podIP": listed[0].get("ip", "")}}
    return pod


def _with_quality(old: Obj, pod: Obj) -> Obj:
    """A status that names no class of quality keeps the pod's."""
    known = get(old, "status", "qosClass")
    if not known or get(pod, "status", "qosClass"):
        return pod
    return {**pod, "status": {**(pod.get("status") or {}), "qosClass": known}}


def _locked(old: Mapping[str, Any], new: Mapping[str, Any]) -> Mapping[str, Any]:
    """Old metadata, but the new one's claims (optimistic lock, managers)."""
    claims = {
        name: new[name] for name in ("resourceVersion", "uid", "managedFields") if name in new
    }
    return {**old, **claims}


def _resize(kind: Kind, old: Obj, new: Obj) -> Obj:
    """pods/resize changes resources of containers and nothing else."""
    del kind
    out: Obj = {**old, "metadata": _locked(old["metadata"], new["metadata"])}
    for part in ("containers", "initContainers"):
        asked = {c.get("name"): c for c in get(new, "spec", part, default=())}
        for index, container in enumerate(get(old, "spec", part, default=())):
            wanted = asked.get(container["name"], container)
            for field in ("resources", "resizePolicy"):
                if wanted.get(field) is not None:
                    out = put(out, ("spec", part, index, field), wanted[field])
    return out


def _ephemeral(kind: Kind, old: Obj, new: Obj) -> Obj:
    """pods/ephemeralcontainers changes spec.ephemeralContainers and nothing else."""
    del kind
    spec = {k: v for k, v in old["spec"].items() if k != "ephemeralContainers"}
    listed = get(new, "spec", "ephemeralContainers")
    return {
        **old,
        "metadata": _locked(old["metadata"], new["metadata"]),
        "spec": {**spec, "ephemeralContainers": listed} if listed else spec,
    }


def _finalize(kind: Kind, old: Obj, new: Obj) -> Obj:
    """namespaces/finalize changes spec.finalizers and nothing else."""
    del kind
    spec = {k: v for k, v in (old.get("spec") or {}).items() if k != "finalizers"}
    left = get(new, "spec", "finalizers", default=())
    return {
        **old,
        "metadata": _locked(old["metadata"], new["metadata"]),
        "spec": {**spec, "finalizers": list(left)} if left else spec,
    }


def _scale(kind: Kind, old: Obj, new: Obj) -> Obj:
    """A Scale was laid over the object already: only its replicas differ."""
    del kind, old
    return new


_SUBRESOURCES: Final[Mapping[str, Callable[[Kind, Obj, Obj], Obj]]] = {
    "scale": _scale,
    "status": _status,
    "resize": _resize,
    "ephemeralcontainers": _ephemeral,
    "finalize": _finalize,
}
WRITABLE: Final = frozenset(_SUBRESOURCES) - {"scale"}  # served as objects of the kind itself
