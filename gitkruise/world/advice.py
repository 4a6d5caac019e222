"""What a kube-apiserver warns of though it does what was asked, in its words."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from gitkruise.wire.names import GroupKind, Obj

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


def _service(obj: Obj) -> Iterator[str]:
    """GetWarningsForService: what a headless service does nothing with."""
    spec = obj.get("spec") or {}
    if spec.get("clusterIP") == "None" and spec.get("type") == "ClusterIP":
        yield from (text for name, text in _IGNORED if spec.get(name))


_OF_KIND: Final[Mapping[GroupKind, Callable[[Obj], Iterator[str]]]] = {
    GroupKind("", "Service"): _service
}


def of_write(group_kind: GroupKind, obj: Obj) -> Iterator[str]:
    """Warnings about an object that is stored now."""
    return _OF_KIND[group_kind](obj) if group_kind in _OF_KIND else iter(())


def of_delete(group_kind: GroupKind, *, policy_given: bool) -> Iterator[str]:
    """Warnings about a delete; jobs alone leave their pods where nothing is said."""
    if group_kind == _JOB and not policy_given:
        yield _CHILDREN
