"""Services at admission: defaults, addresses derived from the name, and Kubernetes' rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from gitkruise.admission.pods.defaults import fresh
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Table,
    between,
    like,
    one_of,
    port,
    port_number,
    present,
    unique,
)
from gitkruise.admission.rules.field_errors import Path, duplicate, forbidden, invalid, required
from gitkruise.admission.rules.labels import label_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.kruise.hashes import fnv1a_32
from gitkruise.wire.kruise.template_defaults import Defaults, fill
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get

SERVICE: Final = GroupKind("", "Service")
_TYPES: Final = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_WITH_NODE_PORTS: Final = ("LoadBalancer", "NodePort")
# What the types that take it lose with a change to one that does not (dropTypeDependentFields).
_ROUTES: Final = (
    "clusterIP",
    "clusterIPs",
    "ipFamilies",
    "ipFamilyPolicy",
    "internalTrafficPolicy",
)
_BALANCED: Final = ("allocateLoadBalancerNodePorts", "loadBalancerClass")
_ADDRESSES: Final = 2**16 - 2  # 10.96.0.0/16 without its first and its last
_RESERVED: Final = "10.96.0.1"  # of service kubernetes
_FIRST_NODE_PORT, _NODE_PORTS = 30000, 2768
_AFFINITY_S: Final = 10800

_DEFAULTS: Final = Defaults(
    (
        (("spec",), "type", "ClusterIP"),
        (("spec",), "sessionAffinity", "None"),
        (("spec", "ports", "*"), "protocol", "TCP"),
    )
)
_ROUTED: Final = Defaults(((("spec",), "internalTrafficPolicy", "Cluster"),))
_EXTERNAL: Final = Table((("externalName",), (present, like(formats.dns_subdomain))))
_RULES: Final = Table(
    (("type",), (one_of(*_TYPES),)),
    (("sessionAffinity",), (one_of("ClientIP", "None"),)),
    (("selector",), (label_problems,)),
    (("ports", EACH, "name"), (like(formats.dns_label),)),
    (("ports", EACH, "port"), (port_number,)),
    (("ports", EACH, "protocol"), (one_of("SCTP", "TCP", "UDP"),)),
    (("ports", EACH, "targetPort"), (port,)),
    (
        ("ports", EACH, "nodePort"),
        (between(0, 65535, formats.PORT_SENTENCE),),
    ),
    (("externalIPs", EACH), (like(formats.ip),)),
    (("externalTrafficPolicy",), (one_of("Cluster", "Local"),)),
    (("internalTrafficPolicy",), (one_of("Cluster", "Local"),)),
)


def default_service(request: AdmissionRequest, _gates: Gates) -> Obj:
    """The service as a kube-apiserver keeps it.

    The cluster address is the first free one from a place given by the service's key, so the same
    services have the same addresses in every run.
    """
    out: dict[str, Any] = {**request.new, "spec": fresh(request.new.get("spec") or {})}
    spec = out["spec"]
    fill(out, _DEFAULTS)
    for one in spec.get("ports", ()):
        if one.get("targetPort") in (None, 0, ""):
            one["targetPort"] = one.get("port")
    if request.old is not None:
        _drop_unused(spec, request.old.get("spec") or {})
    if spec["sessionAffinity"] == "ClientIP":
        spec.setdefault("sessionAffinityConfig", {"clientIP": {"timeoutSeconds": _AFFINITY_S}})
    if spec["type"] == "ExternalName":
        return out
    fill(out, _ROUTED)
    _address(request, spec)
    if spec["type"] == "LoadBalancer":
        spec.setdefault("allocateLoadBalancerNodePorts", True)
    if spec["type"] in _WITH_NODE_PORTS:
        spec.setdefault("externalTrafficPolicy", "Cluster")
        if spec["type"] == "NodePort" or spec["allocateLoadBalancerNodePorts"]:
            _node_ports(request, spec)
    return out


def _drop_unused(spec: dict[str, Any], before: Obj) -> None:
    """Drop the fields that the server set for another type, unless the write changes them."""
    unused: tuple[str, ...] = ()
    if spec["type"] == "ExternalName":
        unused += _ROUTES
    if spec["type"] != "LoadBalancer":
        unused += _BALANCED
    if spec["type"] not in _WITH_NODE_PORTS and not spec.get("externalIPs"):
        unused += ("externalTrafficPolicy",)
    for name in unused:
        if name in spec and spec[name] == before.get(name):
            del spec[name]
    ports = spec.get("ports", ())
    if spec["type"] not in _WITH_NODE_PORTS and _numbers(ports) == _numbers(before.get("ports")):
        for one in ports:
            one.pop("nodePort", None)


def _numbers(ports: Any) -> set[Any]:
    """The node ports of a service, which may be one that an older program left damaged."""
    listed = ports if isinstance(ports, list) else ()
    return {one.get("nodePort") for one in listed if isinstance(one, Mapping)} - {None, 0}


def _address(request: AdmissionRequest, spec: dict[str, Any]) -> None:
    before = (request.old or {}).get("spec") or {}
    chosen = spec.get("clusterIP") or before.get("clusterIP")
    if not chosen:
        taken = {get(service, "spec", "clusterIP") for service in request.view.objects(SERVICE, "")}
        chosen = _free(request.key, _ADDRESSES, taken | {_RESERVED}, _ip)
    spec["clusterIP"] = chosen
    spec.setdefault("clusterIPs", [chosen])
    if chosen == "None" and not spec.get("selector"):  # its endpoints may be of either family
        spec.setdefault("ipFamilyPolicy", "RequireDualStack")
        spec.setdefault("ipFamilies", ["IPv4", "IPv6"])
    spec.setdefault("ipFamilyPolicy", "SingleStack")
    spec.setdefault("ipFamilies", ["IPv6" if ":" in chosen else "IPv4"])


def _node_ports(request: AdmissionRequest, spec: dict[str, Any]) -> None:
    before = {
        (one.get("port"), one.get("protocol")): one.get("nodePort")
        for one in ((request.old or {}).get("spec") or {}).get("ports") or ()
    }
    taken = _taken_numbers(request.view.objects(SERVICE, ""))
    for one in spec.get("ports", ()):
        kept = one.get("nodePort") or before.get((one.get("port"), one["protocol"]))
        one["nodePort"] = kept or _free(request.key, _NODE_PORTS, taken, _node_port)
        taken.add(one["nodePort"])


def _taken_numbers(services: Iterable[Obj]) -> set[Any]:
    return {number for one in services for number in _numbers(get(one, "spec", "ports"))}


def _ip(number: int) -> str:
    return f"10.96.{(number + 1) >> 8}.{(number + 1) & 255}"


def _node_port(number: int) -> int:
    return _FIRST_NODE_PORT + number


def _free(key: ObjectKey, count: int, taken: set[Any], at: Any) -> Any:
    """The first value not taken, from a start given by the key. Raises ValueError when all are."""
    start = fnv1a_32(f"{key.namespace}/{key.name}".encode()) % count
    for step in range(count):
        value = at((start + step) % count)
        if value not in taken:
            return value
    raise ValueError(f"{key}: the range is full")


def service_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateService, and what ValidateServiceUpdate adds."""
    spec: Obj = request.new.get("spec") or {}
    at: Path = ("spec",)
    yield from _RULES.problems(spec, at)
    yield from _port_problems(spec, (*at, "ports"))
    if spec.get("type") == "ExternalName":
        yield from _EXTERNAL.problems(spec, at)
    address = spec.get("clusterIP")
    if address not in (None, "", "None"):
        yield from (invalid((*at, "clusterIPs", 0), address, text) for text in formats.ip(address))
    if spec.get("type") in _WITH_NODE_PORTS and address == "None":
        text = f"may not be set to 'None' for {spec['type']} services"
        yield invalid((*at, "clusterIPs", 0), address, text)
    yield from _inner_problems(spec, at)
    before = (request.old or {}).get("spec") or {}
    stays = "ExternalName" not in (before.get("type"), spec.get("type"))
    if stays and before.get("clusterIP") not in (None, "", address):
        yield invalid((*at, "clusterIPs", 0), address, "may not change once set")


def allocation_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """Addresses and node ports that another service has; the server takes none in a dry run."""
    if request.dry_run:
        return
    spec: Obj = request.new.get("spec") or {}
    before: Obj = (request.old or {}).get("spec") or {}
    own = request.key.namespace, request.key.name
    others = [
        one
        for one in request.view.objects(SERVICE, "")
        if (one["metadata"].get("namespace"), one["metadata"]["name"]) != own
    ]
    address = spec.get("clusterIP")
    asked = address not in (None, "", "None", before.get("clusterIP"))
    if asked and any(address == get(other, "spec", "clusterIP") for other in others):
        text = f"failed to allocate IP {address}: provided IP is already allocated"
        yield invalid(("spec", "clusterIPs"), spec.get("clusterIPs"), text)
    yield from _taken_ports(spec, before, _taken_numbers(others))


def _taken_ports(spec: Obj, before: Obj, taken: set[Any]) -> Iterator[Problem]:
    """Two ports of one service may share a number where their protocols differ."""
    kept, seen = _numbers(before.get("ports")), set[tuple[Any, Any]]()
    for index, one in enumerate(spec.get("ports") or ()):
        number = one.get("nodePort")
        if not number:
            continue
        pair = (number, one.get("protocol"))
        if pair in seen or (number in taken and number not in kept):
            at: Path = ("spec", "ports", index, "nodePort")
            yield invalid(at, number, "provided port is already allocated")
        seen.add(pair)


def _inner_problems(spec: Obj, at: Path) -> Iterator[Problem]:
    """Reject what a service takes only if it is reached from outside of the cluster."""
    if spec.get("type") in _WITH_NODE_PORTS:
        return
    for index, one in enumerate(spec.get("ports") or ()):
        if one.get("nodePort") and spec.get("type") == "ClusterIP":
            text = "may not be used when `type` is 'ClusterIP'"
            yield forbidden((*at, "ports", index, "nodePort"), text)
    if spec.get("externalTrafficPolicy") and not spec.get("externalIPs"):
        text = "may only be set for externally-accessible services"
        yield invalid((*at, "externalTrafficPolicy"), spec["externalTrafficPolicy"], text)


def _port_problems(spec: Obj, at: Path) -> Iterator[Problem]:
    ports = spec.get("ports") or ()
    if not ports and spec.get("type") != "ExternalName" and spec.get("clusterIP") != "None":
        yield required(at)
    yield from unique(ports, at, "name")
    seen: set[tuple[Any, Any]] = set()
    for index, one in enumerate(ports):
        if len(ports) > 1 and not one.get("name"):
            yield required((*at, index, "name"))
        pair = (one.get("protocol"), one.get("port"))
        if pair in seen:
            yield duplicate((*at, index), {"port": pair[1], "protocol": pair[0]})
        seen.add(pair)
        last = _FIRST_NODE_PORT + _NODE_PORTS - 1
        if one.get("nodePort") and not _FIRST_NODE_PORT <= one["nodePort"] <= last:
            bounds = f"The range of valid ports is {_FIRST_NODE_PORT}-{last}"
            text = f"provided port is not in the valid range. {bounds}"
            yield invalid((*at, index, "nodePort"), one["nodePort"], text)
