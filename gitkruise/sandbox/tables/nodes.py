"""Rows of nodes and services."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from gitkruise.sandbox.tables.cells import Cell, age
from gitkruise.sandbox.tables.printed_kinds import NONE, UNKNOWN, labels_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get

_ROLE_PREFIX: Final = "node-role.kubernetes.io/"
_ROLE: Final = "kubernetes.io/role"


def node(obj: Obj, now: datetime) -> list[Cell]:
    """NAME STATUS ROLES AGE VERSION and the wide columns, as kube-apiserver's printNode."""
    info = get(obj, "status", "nodeInfo", default={})
    return [
        obj["metadata"].get("name"),
        ",".join(_node_status(obj)),
        ",".join(_roles(obj)) or NONE,
        age(obj, now),
        info.get("kubeletVersion", ""),
        _address(obj, "InternalIP"),
        _address(obj, "ExternalIP"),
        info.get("osImage") or UNKNOWN,
        info.get("kernelVersion") or UNKNOWN,
        info.get("containerRuntimeVersion") or UNKNOWN,
    ]


def _node_status(obj: Obj) -> list[str]:
    conditions = get(obj, "status", "conditions", default=())
    ready = next((c for c in conditions if c.get("type") == "Ready"), None)
    words = [
        "Unknown" if ready is None else "Ready" if ready.get("status") == "True" else "NotReady"
    ]
    if get(obj, "spec", "unschedulable"):
        words.append("SchedulingDisabled")
    return words


def _roles(obj: Obj) -> list[str]:
    labels = obj["metadata"].get("labels") or {}
    roles = {key.removeprefix(_ROLE_PREFIX) for key in labels if key.startswith(_ROLE_PREFIX)}
    if labels.get(_ROLE):
        roles.add(labels[_ROLE])
    return sorted(filter(None, roles))


def _address(obj: Obj, kind: str) -> str:
    addresses = get(obj, "status", "addresses", default=())
    return next((a.get("address", "") for a in addresses if a.get("type") == kind), NONE)


def service(obj: Obj, now: datetime) -> list[Cell]:
    """NAME TYPE CLUSTER-IP EXTERNAL-IP PORT(S) AGE and SELECTOR."""
    spec: Mapping[str, Any] = obj.get("spec") or {}
    addresses = spec.get("clusterIPs") or ()
    return [
        obj["metadata"].get("name"),
        spec.get("type", ""),
        (addresses[0] if addresses else spec.get("clusterIP")) or NONE,
        _external(obj, spec),
        ",".join(_port(entry) for entry in spec.get("ports") or ()) or NONE,
        age(obj, now),
        labels_of(spec.get("selector")),
    ]


def _external(obj: Obj, spec: Mapping[str, Any]) -> str:
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName", ""))
    given = list(spec.get("externalIPs") or ())
    if spec.get("type") == "LoadBalancer":
        entries = get(obj, "status", "loadBalancer", "ingress", default=())
        given = [entry.get("ip") or entry.get("hostname", "") for entry in entries] + given
        return ",".join(given) or "<pending>"
    return ",".join(given) or NONE


def _port(entry: Mapping[str, Any]) -> str:
    shown = str(entry.get("port"))
    if entry.get("nodePort"):
        shown += f":{entry['nodePort']}"
    return f"{shown}/{entry.get('protocol', 'TCP')}"
