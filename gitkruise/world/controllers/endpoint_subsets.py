"""Endpoints of a Service: its pods' addresses, grouped by the ports they share.

Source: kube-controller-manager's endpoint controller (1.34). It orders subsets and ports by a hash
of Go values; here they are ordered by what they say.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import ceil
from typing import Any, Final

from gitkruise.wire.primitives.names import Obj
from gitkruise.world.controllers.service_backends import Backend, Port, headless, of_family

MANAGED_BY: Final = "endpoints.kubernetes.io/managed-by"
CONTROLLER: Final = "endpoint-controller"
HEADLESS: Final = "service.kubernetes.io/headless"
OVER_CAPACITY: Final = "endpoints.kubernetes.io/over-capacity"
ADDRESSES_MAX: Final = 1000
_READY, _NOT_READY = "addresses", "notReadyAddresses"


def subsets_of(service: Obj, backends: Sequence[Backend]) -> tuple[list[Obj], bool]:
    """The subsets, and whether addresses had to be left out."""
    spec = service["spec"]
    everybody = bool(spec.get("publishNotReadyAddresses"))
    family = (spec.get("ipFamilies") or ["IPv4"])[0]
    portless = not spec.get("ports")
    offered: dict[Port | None, list[int]] = {}
    listed: list[tuple[dict[str, Any], bool]] = []
    for one in backends:
        ips = of_family(one, family)
        if not ips or (one.terminating and not everybody):
            continue
        ports: Sequence[Port | None] = one.ports
        if portless:
            ports = (None,) if spec.get("clusterIP") == "None" else ()
        for port in ports:
            offered.setdefault(port, []).append(len(listed))
        listed.append((_address(one, ips[0]), everybody or one.ready))
    alike: dict[tuple[int, ...], list[Port | None]] = {}
    for port, indexes in offered.items():
        alike.setdefault(tuple(indexes), []).append(port)
    subsets = [_subset([listed[i] for i in indexes], ports) for indexes, ports in alike.items()]
    return _cut(sorted(subsets, key=_order))


def labels_of(service: Obj) -> dict[str, str]:
    """The labels of a Service's Endpoints: its own, and two that say what they are."""
    labels = dict(service["metadata"].get("labels") or {})
    labels.pop(HEADLESS, None)
    return labels | ({HEADLESS: ""} if headless(service) else {}) | {MANAGED_BY: CONTROLLER}


def labels_agree(known: Mapping[str, str], service: Obj) -> bool:
    """Return whether Endpoints carry the labels of their Service; the headless label may lag."""
    if known.get(MANAGED_BY) != CONTROLLER:
        return False
    own = {k: v for k, v in known.items() if k not in (HEADLESS, MANAGED_BY)}
    return own == (service["metadata"].get("labels") or {})


def _address(backend: Backend, ip: str) -> dict[str, Any]:
    return {
        "ip": ip,
        **({"hostname": backend.hostname} if backend.hostname else {}),
        "nodeName": backend.node,
        "targetRef": backend.target,
    }


def _subset(listed: Sequence[tuple[dict[str, Any], bool]], ports: Sequence[Port | None]) -> Obj:
    by_ip = sorted(listed, key=lambda one: (one[0]["ip"], one[0]["targetRef"]["uid"]))
    parts = {
        _READY: [address for address, ready in by_ip if ready],
        _NOT_READY: [address for address, ready in by_ip if not ready],
        "ports": [_port(port) for port in sorted(filter(None, ports), key=_by_name)],
    }
    return {name: part for name, part in parts.items() if part}


def _by_name(port: Port) -> tuple[str, int, str]:
    return port[:3]


def _port(port: Port) -> dict[str, Any]:
    return {
        **({"name": port.name} if port.name else {}),
        "port": port.port,
        "protocol": port.protocol,
        **({"appProtocol": port.app_protocol} if port.app_protocol is not None else {}),
    }


def _order(subset: Obj) -> list[tuple[str, int]]:
    return [(port.get("name", ""), port["port"]) for port in subset.get("ports") or ()]


def _cut(subsets: list[Obj]) -> tuple[list[Obj], bool]:
    """At most ADDRESSES_MAX addresses: ready ones first, each subset a share by its size."""
    ready, others = (sum(len(s.get(name, ())) for s in subsets) for name in (_READY, _NOT_READY))
    if ready + others <= ADDRESSES_MAX:
        return subsets, False
    name, total, room = _READY, ready, ADDRESSES_MAX
    if ready <= ADDRESSES_MAX:
        name, total, room = _NOT_READY, others, ADDRESSES_MAX - ready
    left = room
    out: list[Obj] = []
    for subset in subsets:
        share = min(ceil(len(subset.get(name, ())) / total * room), left)
        kept = subset.get(name, ())[:share]
        left -= len(kept)
        dropped = {name, _NOT_READY}
        rest = {key: part for key, part in subset.items() if key not in dropped}
        out.append({**rest, **({name: kept} if kept else {})})
    return out, True
