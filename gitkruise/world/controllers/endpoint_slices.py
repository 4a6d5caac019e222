"""EndpointSlices of a Service to create, update and delete; at most 100 pods each.

Source: the reconciler of kube-controller-manager's endpoint slice controller (1.34), which keeps
what fits where it is. Where it takes pods in no order they are taken by name here.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from gitkruise.wire.primitives.names import Obj, controller_reference
from gitkruise.world.controllers.endpoint_subsets import HEADLESS
from gitkruise.world.controllers.service_backends import (
    FAMILIES,
    Backend,
    Port,
    headless,
    of_family,
)

SERVICE_NAME: Final = "kubernetes.io/service-name"
MANAGED_BY: Final = "endpointslice.kubernetes.io/managed-by"
CONTROLLER: Final = "endpointslice-controller.k8s.io"
PER_SLICE_MAX: Final = 100
NAME_MAX: Final = 253
_RESERVED: Final = frozenset({SERVICE_NAME, MANAGED_BY, HEADLESS})
_NEAR: Final = frozenset({"PreferClose", "PreferSameZone", "PreferSameNode"})

Identity: TypeAlias = tuple[tuple[str, ...], str, str]  # addresses, hostname, pod
Ports: TypeAlias = tuple[Port, ...]


@dataclass(slots=True)
class Slices:
    """Slices to create, update and delete. Slices to create have generateName and no name."""

    make: list[Obj] = field(default_factory=list)
    change: list[Obj] = field(default_factory=list)
    drop: list[Obj] = field(default_factory=list)


def is_ours(obj: Obj, service: str) -> bool:
    """Return whether the controller manages this slice for the Service of that name."""
    labels = obj["metadata"].get("labels") or {}
    return labels.get(SERVICE_NAME) == service and labels.get(MANAGED_BY) == CONTROLLER


def reconciled(
    service: Obj,
    backends: Iterable[Backend],
    existing: Sequence[Obj],
    zones: Mapping[str, str],
) -> Slices:
    """From the slices there are to those there have to be. `zones`: of every node, by its name."""
    out = Slices()
    listed = list(backends)
    families = service["spec"].get("ipFamilies") or FAMILIES[:1]
    for family in families:
        mine = [obj for obj in existing if obj["addressType"] == family]
        part = _of_family(service, family, _wanted(service, family, listed, zones), mine)
        _reuse(part)
        out.make += part.make
        out.change += part.change
        out.drop += part.drop
    out.drop += [obj for obj in existing if obj["addressType"] not in families]
    return out


def _wanted(
    service: Obj, family: str, backends: Sequence[Backend], zones: Mapping[str, str]
) -> dict[Ports, dict[Identity, Obj]]:
    """The endpoints by their ports. A pod of a node that does not exist leaves its ports empty."""
    everybody = bool(service["spec"].get("publishNotReadyAddresses"))
    near = str(service["spec"].get("trafficDistribution"))
    wanted: dict[Ports, dict[Identity, Obj]] = {}
    for one in sorted(backends, key=lambda backend: backend.name):
        group = wanted.setdefault(tuple(sorted(one.ports, key=_by_name)), {})
        addresses = sorted(of_family(one, family))
        if addresses and (one.node in zones or everybody):
            ready = everybody or (one.ready and not one.terminating)
            zone = zones.get(one.node, "")
            endpoint = _endpoint(one, addresses, zone, ready=ready)
            if ready and near in _NEAR:
                endpoint |= _hints(one, zone, near)
            group[_identity(endpoint)] = endpoint
    return wanted


def _by_name(port: Port) -> tuple[str, int, str, str]:
    return (*port[:3], port.app_protocol or "")


def _endpoint(one: Backend, addresses: list[str], zone: str, *, ready: bool) -> dict[str, Any]:
    return {
        "addresses": addresses,
        "conditions": {"ready": ready, "serving": one.ready, "terminating": one.terminating},
        **({"hostname": one.hostname} if one.hostname else {}),
        "targetRef": one.target,
        **({"nodeName": one.node} if one.node else {}),
        **({"zone": zone} if zone else {}),
    }


def _hints(one: Backend, zone: str, near: str) -> dict[str, Any]:
    nodes = one.node if near == "PreferSameNode" else ""
    places = {"forZones": zone, "forNodes": nodes}
    hints = {name: [{"name": place}] for name, place in places.items() if place}
    return {"hints": hints} if hints else {}


def _identity(endpoint: Obj) -> Identity:
    """Return the identity of an endpoint, without its conditions."""
    target = endpoint.get("targetRef") or {}
    return tuple(endpoint["addresses"]), endpoint.get("hostname", ""), target.get("name", "")


def _of_family(
    service: Obj,
    family: str,
    wanted: Mapping[Ports, dict[Identity, Obj]],
    existing: Sequence[Obj],
) -> Slices:
    by_ports: dict[Ports, list[Obj]] = {}
    for obj in existing:
        by_ports.setdefault(_ports(obj), []).append(obj)
    out = Slices()
    for ports, endpoints in wanted.items():
        _fit(out, service, family, ports, dict(endpoints), by_ports.get(ports, []))
    out.drop += [obj for ports, kept in by_ports.items() if ports not in wanted for obj in kept]
    if len(existing) == len(out.drop) and not out.make:
        empty = _new(service, family, (), [])
        if len(out.drop) == 1 and _is_like(out.drop[0], empty):
            out.drop = []
        else:
            out.make.append(empty)
    return out


def _is_like(obj: Obj, empty: Obj) -> bool:
    """Return whether a slice already equals the one without pods."""
    return (
        not obj.get("endpoints")
        and not obj.get("ports")
        and obj["metadata"].get("labels") == empty["metadata"]["labels"]
    )


def _ports(obj: Obj) -> Ports:
    ports = (
        Port(p.get("name") or "", p.get("port") or 0, p.get("protocol") or "", p.get("appProtocol"))
        for p in obj.get("ports") or ()
    )
    return tuple(sorted(ports, key=_by_name))


def _fit(
    out: Slices,
    service: Obj,
    family: str,
    ports: Ports,
    left: dict[Identity, Obj],
    existing: Sequence[Obj],
) -> None:
    """Keep each endpoint in the slice it is in; the others go where there is room."""
    calm: list[Obj] = []
    changed: list[Obj] = []
    for obj in existing:
        before = obj.get("endpoints") or []
        kept = [left.pop(_identity(one), None) for one in before]
        now = [one for one in kept if one is not None]
        if before and not now:
            out.drop.append(obj)
        elif now != before or not _labelled(obj, service):
            changed.append(_with(obj, service, now))
        else:
            calm.append(obj)
    for at, obj in enumerate(sorted(changed, key=lambda one: -len(one["endpoints"]))):
        taken = _take(left, PER_SLICE_MAX - len(obj["endpoints"]))
        changed[at] = _with(obj, service, [*obj["endpoints"], *taken])
    while left:
        filled = _roomy(calm, len(left))
        if filled is None:
            out.make.append(_new(service, family, ports, _take(left, PER_SLICE_MAX)))
        else:
            calm.remove(filled)
            taken = _take(left, len(left))
            changed.append(_with(filled, service, [*(filled.get("endpoints") or ()), *taken]))
    out.change += changed


def _take(left: dict[Identity, Obj], count: int) -> list[Obj]:
    return [left.pop(identity) for identity in list(left)[:count]]


def _roomy(slices: Sequence[Obj], count: int) -> Obj | None:
    """The slice that is fullest once `count` more endpoints are in it, if one has the room."""
    if count >= PER_SLICE_MAX:
        return None
    sizes = ((len(obj.get("endpoints") or ()) + count, obj) for obj in slices)
    fitting = [(size, obj) for size, obj in sizes if size <= PER_SLICE_MAX]
    return max(fitting, key=lambda one: one[0])[1] if fitting else None


def _labelled(obj: Obj, service: Obj) -> bool:
    """Return whether a slice carries the labels of its Service in addition to its own."""
    own, theirs = (o["metadata"].get("labels") or {} for o in (obj, service))
    kept = {key: value for key, value in own.items() if key not in _RESERVED}
    return kept == {key: value for key, value in theirs.items() if key not in _RESERVED}


def _labels(service: Obj) -> dict[str, str]:
    theirs = service["metadata"].get("labels") or {}
    return {
        **{key: value for key, value in theirs.items() if key not in _RESERVED},
        **({HEADLESS: ""} if headless(service) else {}),
        SERVICE_NAME: service["metadata"]["name"],
        MANAGED_BY: CONTROLLER,
    }


def _with(obj: Obj, service: Obj, endpoints: list[Obj]) -> Obj:
    meta = {**obj["metadata"], "labels": _labels(service)}
    return {**obj, "metadata": meta, "endpoints": endpoints}


def _new(service: Obj, family: str, ports: Ports, endpoints: list[Obj]) -> Obj:
    name = service["metadata"]["name"]
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "generateName": f"{name}-" if len(name) < NAME_MAX else name,
            "namespace": service["metadata"]["namespace"],
            "labels": _labels(service),
            "ownerReferences": [controller_reference(service)],
        },
        "addressType": family,
        "endpoints": endpoints,
        "ports": [
            {
                "name": port.name,
                "protocol": port.protocol,
                "port": port.port,
                **({"appProtocol": port.app_protocol} if port.app_protocol is not None else {}),
            }
            for port in ports
        ],
    }


def _reuse(part: Slices) -> None:
    """A slice that would go becomes one that would be made."""
    while part.make and part.drop:
        gone, made = part.drop.pop(0), part.make.pop()
        meta = {**gone["metadata"], "labels": made["metadata"]["labels"]}
        part.change.append({**made, "metadata": meta})
