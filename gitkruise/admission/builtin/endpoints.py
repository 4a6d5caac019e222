"""Endpoints and EndpointSlices at admission: Kubernetes' defaults and rules."""

from __future__ import annotations

from collections.abc import Iterator
from ipaddress import ip_address
from typing import Any, Final

from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Rule,
    Table,
    like,
    one_of,
    port_number,
    present,
    unique,
)
from gitkruise.admission.rules.field_errors import IMMUTABLE, Path, invalid, required
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj

ENDPOINTS: Final = GroupKind("", "Endpoints")
SLICE: Final = GroupKind("discovery.k8s.io", "EndpointSlice")
KINDS: Final = frozenset({ENDPOINTS, SLICE})
_PROTOCOL: Final = one_of("SCTP", "TCP", "UDP")
_IP: Final = frozenset({"IPv4", "IPv6"})
_LISTS: Final = ("addresses", "notReadyAddresses")
_SPECIAL: Final = (
    ("is_loopback", "may not be in the loopback range (127.0.0.0/8, ::1/128)"),
    ("is_link_local", "may not be in the link-local range (169.254.0.0/16, fe80::/10)"),
)


def _usable(value: Any, at: Path) -> Iterator[Problem]:
    """ValidateEndpointIP: an address that others can reach."""
    if formats.ip(value or ""):
        yield invalid(at, value or "", "must be a valid IP address")
        return
    address = ip_address(value)
    if address.is_unspecified:
        yield invalid(at, value, f"may not be unspecified ({value})")
    yield from (invalid(at, value, text) for name, text in _SPECIAL if getattr(address, name))


_NAMED_PORT: Final[tuple[Rule, ...]] = (
    ((EACH, "name"), (like(formats.dns_label),)),
    ((EACH, "protocol"), (_PROTOCOL,)),
    ((EACH, "appProtocol"), (like(formats.qualified_name),)),
)
_PORTS: Final = Table(*_NAMED_PORT)
_ADDRESS: Final = Table(
    (("hostname",), (like(formats.dns_label),)),
    (("nodeName",), (like(formats.dns_subdomain),)),
)
_PORT: Final = Table(
    (("name",), (like(formats.dns_label),)),
    (("port",), (port_number,)),
    (("protocol",), (_PROTOCOL,)),
    (("appProtocol",), (like(formats.qualified_name),)),
)
_OF_SLICE: Final = Table(
    (("endpoints", EACH, "nodeName"), (like(formats.dns_subdomain),)),
    (("endpoints", EACH, "hostname"), (like(formats.dns_label),)),
)


def default_endpoints(request: AdmissionRequest, _gates: Gates) -> Obj:
    """Ports are TCP's, and a slice's have a name; its two lists are always written."""
    obj = request.new
    if request.key.group_kind == SLICE:
        ports = [{"name": "", "protocol": "TCP", **port} for port in obj.get("ports") or ()]
        return {**obj, "endpoints": obj.get("endpoints") or None, "ports": ports or None}
    subsets = [_subset(subset) for subset in obj.get("subsets") or ()]
    rest = {key: value for key, value in obj.items() if key != "subsets"}
    return {**rest, "subsets": subsets} if subsets else rest


def _subset(subset: Obj) -> Obj:
    ports = [{"protocol": "TCP", **port} for port in subset.get("ports") or ()]
    kept = {key: value for key, value in subset.items() if value and key != "ports"}
    return {**kept, "ports": ports} if ports else kept


def endpoints_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateEndpoints, ValidateEndpointSlice and what its update adds."""
    obj: Any = request.obj
    if request.key.group_kind == SLICE:
        yield from _slice_problems(obj, request.old)
        return
    for index, subset in enumerate(obj.get("subsets") or ()):
        at: Path = ("subsets", index)
        if not any(subset.get(name) for name in _LISTS):
            yield required(at, "must specify `addresses` or `notReadyAddresses`")
        yield from _subset_problems(subset, at)


def _subset_problems(subset: Obj, at: Path) -> Iterator[Problem]:
    for name in _LISTS:
        for index, address in enumerate(subset.get(name) or ()):
            here: Path = (*at, name, index)
            ip = address.get("ip") or ""
            yield from (invalid((*here, "ip"), ip, text) for text in formats.ip(ip))
            yield from _ADDRESS.problems(address, here)
            yield from _usable(ip, (*here, "ip"))
    ports = subset.get("ports") or ()
    for index, port in enumerate(ports):
        if len(ports) > 1 and not port.get("name"):
            yield required((*at, "ports", index, "name"))
        yield from _PORT.problems({"port": 0, **port}, (*at, "ports", index))


def _slice_problems(obj: Obj, old: Obj | None) -> Iterator[Problem]:
    family = obj.get("addressType")
    families = (present, one_of("FQDN", "IPv4", "IPv6"))
    yield from Table((("addressType",), families)).problems(obj, ())
    yield from _PORTS.problems(obj.get("ports"), ("ports",))
    yield from unique(obj.get("ports"), ("ports",), "name")
    yield from _OF_SLICE.problems(obj, ())
    for index, endpoint in enumerate(obj.get("endpoints") or ()):
        at: Path = ("endpoints", index, "addresses")
        addresses = endpoint.get("addresses") or ()
        if not addresses:
            yield required(at, "must contain at least 1 address")
        for position, address in enumerate(addresses if family in _IP else ()):
            if sentences := formats.ip(address):
                yield from (invalid((*at, position), address, text) for text in sentences)
                continue
            if (":" in address) != (family == "IPv6"):
                yield invalid(at, address, f"must be an {family} address")
            yield from _usable(address, (*at, position))
    if old is not None and family != old.get("addressType"):
        yield invalid(("addressType",), family, IMMUTABLE)
