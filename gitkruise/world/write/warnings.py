"""Warnings of kube-apiserver about accepted writes, word for word."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from gitkruise.model.workloads.launch_priority import ANNOTATION, ORDERED, misspelt_order
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get

_POD: Final = GroupKind("", "Pod")
_JOB: Final = GroupKind("batch", "Job")
_CHILDREN: Final = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background"
    " to remove them or set propagationPolicy=Orphan to suppress this warning"
)
_IGNORED: Final = (
    ("loadBalancerIP", "spec.loadBalancerIP is ignored for headless services"),
    ("externalIPs", "spec.externalIPs is ignored for headless services"),
    ("sessionAffinity", "spec.SessionAffinity is ignored for headless services"),
)

# What is said of every use of a kind (1.34).
OUTDATED: Final[Mapping[GroupKind, tuple[str, ...]]] = {
    GroupKind("", "Endpoints"): (
        "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    ),
    GroupKind("", "ComponentStatus"): ("v1 ComponentStatus is deprecated in v1.19+",),
}


def _service(obj: Obj) -> Iterator[str]:
    """GetWarningsForService: what a headless service does nothing with."""
    spec = obj.get("spec") or {}
    if spec.get("clusterIP") == "None" and spec.get("type") == "ClusterIP":
        yield from (text for name, text in _IGNORED if spec.get(name))


def _slice(obj: Obj) -> Iterator[str]:
    if obj.get("addressType") == "FQDN":
        yield "spec.addressType: FQDN endpoints are deprecated"


def _template(*path: str) -> Callable[[Obj], Iterator[str]]:
    """Warnings of the pod spec at `path`."""

    def warnings(obj: Obj) -> Iterator[str]:
        yield from _pod_spec(get(obj, *path, default={}), ".".join(path))
        yield from _launch_order(obj, *path[:-1])

    return warnings


def _launch_order(obj: Obj, *path: str) -> Iterator[str]:
    """Ours: OpenKruise ignores a value that differs from Ordered in case."""
    notes = get(obj, *path, "metadata", "annotations", default={}) or {}
    if found := misspelt_order(notes):
        at = ".".join((*path, "metadata", f"annotations[{ANNOTATION}]"))
        yield f'{at}: "{found}" has no effect; write "{ORDERED}"'


def _cloneset(obj: Obj) -> Iterator[str]:
    yield from _launch_order(obj, "spec", "template")


def _pod_spec(spec: Obj, at: str) -> Iterator[str]:
    """GetWarningsForPodTemplate: one port of two containers."""
    seen: dict[tuple[Any, Any], str] = {}
    for i, container in enumerate(spec.get("containers") or ()):
        for j, port in enumerate(container.get("ports") or ()):
            here = f"{at}.containers[{i}].ports[{j}]"
            key = (port.get("containerPort"), port.get("protocol"))
            if key in seen:
                yield f"{here}: duplicate port definition with {seen[key]}"
            seen.setdefault(key, here)


_IN_TEMPLATE: Final = ("spec", "template", "spec")
_OF_KIND: Final[Mapping[GroupKind, Callable[[Obj], Iterator[str]]]] = {
    _POD: _template("spec"),
    **{
        GroupKind("apps", kind): _template(*_IN_TEMPLATE)
        for kind in ("Deployment", "ReplicaSet", "StatefulSet", "DaemonSet")
    },
    _JOB: _template(*_IN_TEMPLATE),
    GroupKind("batch", "CronJob"): _template("spec", "jobTemplate", *_IN_TEMPLATE),
    GroupKind("apps.kruise.io", "CloneSet"): _cloneset,
    GroupKind("", "Service"): _service,
    GroupKind("discovery.k8s.io", "EndpointSlice"): _slice,
}


def of_write(group_kind: GroupKind, obj: Obj) -> Iterator[str]:
    """Warnings about an object that is stored now."""
    return _OF_KIND[group_kind](obj) if group_kind in _OF_KIND else iter(())


def of_change(group_kind: GroupKind, obj: Obj) -> Iterator[str]:
    """Warnings about an object that changes; pods change too often for a server to look."""
    return iter(()) if group_kind == _POD else of_write(group_kind, obj)


def of_delete(group_kind: GroupKind, *, policy_given: bool) -> Iterator[str]:
    """Warnings about a delete; jobs alone leave their pods where nothing is said."""
    if group_kind == _JOB and not policy_given:
        yield _CHILDREN
