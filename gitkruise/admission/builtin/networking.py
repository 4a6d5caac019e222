"""Ingresses, their classes and network policies at admission: Kubernetes' defaults and rules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from ipaddress import ip_network
from typing import Any, Final

from gitkruise.admission.pods.defaults import fresh
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import like, one_of, port_number, present
from gitkruise.admission.rules.field_errors import (
    IMMUTABLE,
    Path,
    forbidden,
    invalid,
    required,
    unsupported,
)
from gitkruise.admission.rules.labels import selector_problems
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import GroupKind, Obj

_GROUP: Final = "networking.k8s.io"
INGRESS, CLASS = GroupKind(_GROUP, "Ingress"), GroupKind(_GROUP, "IngressClass")
POLICY: Final = GroupKind(_GROUP, "NetworkPolicy")
_WILDCARD: Final = (
    "a wildcard DNS-1123 subdomain must start with '*.', followed by a valid DNS subdomain, which"
    " must consist of lower case alphanumeric characters, '-' or '.' and end with an alphanumeric"
    " character (e.g. '*.example.com', regex used for validation is"
    r" '\*\.[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_CIDR: Final = "must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)"
_INSIDE: Final = ("//", "/./", "/../", "%2f", "%2F")
_AT_END: Final = ("/..", "/.")
_ANY_PATH: Final = "ImplementationSpecific"
_WAYS: Final = (("ingress", "from"), ("egress", "to"))
_TYPES: Final = ("Ingress", "Egress")


def default_networking(request: AdmissionRequest, _gates: Gates) -> Obj:
    """A class's parameters are cluster-wide; a policy's ports are TCP's, and it names its types."""
    if request.key.group_kind == INGRESS or not request.new.get("spec"):
        return request.new
    spec: dict[str, Any] = fresh(request.new["spec"])
    if request.key.group_kind == CLASS:
        if spec.get("parameters"):
            spec["parameters"].setdefault("scope", "Cluster")
        return {**request.new, "spec": spec}
    for way, _ in _WAYS:
        for rule in spec.get(way, ()):
            for port in rule.get("ports", ()):
                port.setdefault("protocol", "TCP")
    if not spec.get("policyTypes"):
        spec["policyTypes"] = list(_TYPES if spec.get("egress") else _TYPES[:1])
    return {**request.new, "spec": spec}


def networking_problems(request: AdmissionRequest, _gates: Gates) -> Iterator[Problem]:
    """ValidateIngress, ValidateIngressClass, ValidateNetworkPolicy and their updates."""
    obj: Any = request.obj
    old = request.old or {}
    yield from _RULES[request.key.group_kind](obj.get("spec") or {}, old.get("spec") or {})


def _ingress(spec: Obj, _old: Obj) -> Iterator[Problem]:
    at: Path = ("spec",)
    if not spec.get("rules") and spec.get("defaultBackend") is None:
        yield invalid(at, None, "either `defaultBackend` or `rules` must be specified")
    if spec.get("defaultBackend") is not None:
        yield from _backend(spec["defaultBackend"], (*at, "defaultBackend"))
    for index, rule in enumerate(spec.get("rules") or ()):
        here: Path = (*at, "rules", index)
        yield from _host(rule.get("host") or "", (*here, "host"))
        if rule.get("http") is not None:
            yield from _paths(rule["http"].get("paths"), (*here, "http", "paths"))
    for index, entry in enumerate(spec.get("tls") or ()):
        for number, host in enumerate(entry.get("hosts") or ()):
            yield from _name(host, (*at, "tls", index, "hosts", number))
        secret = (*at, "tls", index, "secretName")
        yield from like(formats.dns_subdomain)(entry.get("secretName"), secret)
    yield from like(formats.dns_subdomain)(spec.get("ingressClassName"), (*at, "ingressClassName"))


def _host(host: str, at: Path) -> Iterator[Problem]:
    if host and not formats.ip(host):
        yield invalid(at, host, "must be a DNS name, not an IP address")
    if host:
        yield from _name(host, at)


def _name(host: str, at: Path) -> Iterator[Problem]:
    """A DNS name, of which the first label may be a star."""
    if "*" not in host:
        yield from (invalid(at, host, text) for text in formats.dns_subdomain(host))
    elif not host.startswith("*.") or formats.dns_subdomain(host[2:]):
        yield invalid(at, host, _WILDCARD)


def _paths(paths: Sequence[Obj] | None, at: Path) -> Iterator[Problem]:
    if not paths:
        yield required(at)
    for index, one in enumerate(paths or ()):
        here: Path = (*at, index)
        kind = one.get("pathType")
        if kind is None:
            yield required((*here, "pathType"), "pathType must be specified")
            continue
        yield from _path(one.get("path") or "", kind, (*here, "path"))
        yield from one_of("Exact", _ANY_PATH, "Prefix")(kind, (*here, "pathType"))
        yield from _backend(one.get("backend") or {}, (*here, "backend"))


def _path(path: str, kind: str, at: Path) -> Iterator[Problem]:
    exact = kind in ("Exact", "Prefix")
    if not path.startswith("/") and (exact or (path and kind == _ANY_PATH)):
        yield invalid(at, path, "must be an absolute path")
    if exact:
        found = (part for part in _INSIDE if part in path)
        yield from (invalid(at, path, f"must not contain '{part}'") for part in found)
        ends = (part for part in _AT_END if path.endswith(part))
        yield from (invalid(at, path, f"cannot end with '{part}'") for part in ends)


def _backend(backend: Obj, at: Path) -> Iterator[Problem]:
    service, resource = backend.get("service"), backend.get("resource")
    if service is not None and resource is not None:
        yield invalid(at, "", "cannot set both resource and service backends")
    elif resource is not None:
        yield from _reference(resource, (*at, "resource"))
    elif service is None:
        yield invalid(at, "", "resource or service backend is required")
    else:
        where: Path = (*at, "service", "name")
        yield from present(service.get("name"), where)
        yield from like(formats.service_name)(service.get("name"), where)
        yield from _service_port(service.get("port") or {}, at)


def _service_port(port: Obj, at: Path) -> Iterator[Problem]:
    name, number = port.get("name"), port.get("number")
    if name and number:
        yield invalid(at, "", "cannot set both port name & port number")
    elif not name and not number:
        yield required(at, "port name or number is required")
    yield from like(formats.port_name)(None if number else name, (*at, "service", "port", "name"))
    if number and not name:
        yield from port_number(number, (*at, "service", "port", "number"))


def _reference(reference: Obj, at: Path) -> Iterator[Problem]:
    yield from like(formats.dns_subdomain)(reference.get("apiGroup"), (*at, "apiGroup"))
    yield from (required((*at, name)) for name in ("kind", "name") if not reference.get(name))


def _class(spec: Obj, old: Obj) -> Iterator[Problem]:
    at: Path = ("spec", "controller")
    controller, parameters = spec.get("controller") or "", spec.get("parameters")
    if old and controller != old.get("controller"):
        yield invalid(at, controller, IMMUTABLE)
    if not controller:
        yield required(at)
    elif "/" not in controller:
        yield invalid(at, controller, 'must be a domain-prefixed path (such as "acme.io/foo")')
    if parameters is None:
        return
    at = ("spec", "parameters")
    yield from _reference(parameters, at)
    scope, namespace = parameters.get("scope"), parameters.get("namespace")
    yield from one_of("Cluster", "Namespace")(scope, (*at, "scope"))
    if scope == "Namespace" and namespace is None:
        yield required((*at, "namespace"), "`parameters.scope` is set to 'Namespace'")
    if scope == "Cluster" and namespace is not None:
        yield forbidden((*at, "namespace"), "`parameters.scope` is set to 'Cluster'")


def _policy(spec: Obj, _old: Obj) -> Iterator[Problem]:
    yield from selector_problems(spec.get("podSelector"), ("spec", "podSelector"))
    for way, peers in _WAYS:
        for index, rule in enumerate(spec.get(way) or ()):
            at: Path = ("spec", way, index)
            for number, port in enumerate(rule.get("ports") or ()):
                yield from _policy_port(port, (*at, "ports", number))
            for number, peer in enumerate(rule.get(peers) or ()):
                yield from _peer(peer, (*at, peers, number))
    types = spec.get("policyTypes") or ()
    if len(types) > len(_TYPES):
        where: Path = ("spec", "policyTypes")
        yield invalid(where, list(types), "may not specify more than two policyTypes")
        return
    for index, one in enumerate(types):
        if one not in _TYPES:
            yield unsupported(("spec", "policyTypes", index), one, _TYPES, as_listed=True)


def _policy_port(port: Obj, at: Path) -> Iterator[Problem]:
    number, last = port.get("port"), port.get("endPort")
    protocols = ("TCP", "UDP", "SCTP")
    if port.get("protocol") not in (None, *protocols):
        yield unsupported((*at, "protocol"), port["protocol"], protocols, as_listed=True)
    end: Path = (*at, "endPort")
    if number is None or isinstance(number, str):
        if last is not None:
            lacking = "non-numeric" if number else "not specified"
            yield invalid(end, last, f"may not be specified when `port` is {lacking}")
        yield from like(formats.port_name)(number, (*at, "port"))
        return
    yield from port_number(number, (*at, "port"))
    if last is not None:
        if last < number:
            yield invalid(end, number, "must be greater than or equal to `port`")
        yield from port_number(last, end)


def _peer(peer: Obj, at: Path) -> Iterator[Problem]:
    selectors = [name for name in ("podSelector", "namespaceSelector") if name in peer]
    for name in selectors:
        yield from selector_problems(peer[name], (*at, name))
    block = peer.get("ipBlock")
    if block is not None:
        yield from _block(block, (*at, "ipBlock"))
        if selectors:
            yield forbidden(at, "may not specify both ipBlock and another peer")
    elif not selectors:
        yield required(at, "must specify a peer")


def _block(block: Obj, at: Path) -> Iterator[Problem]:
    """ValidateIPBlock: what is left out lies within what is taken."""
    text = block.get("cidr") or ""
    if not text:
        yield required((*at, "cidr"))
        return
    whole = _network(text)
    if whole is None:
        yield invalid((*at, "cidr"), text, _CIDR)
        return
    for index, part in enumerate(block.get("except") or ()):
        here: Path = (*at, "except", index)
        left_out = _network(part)
        if left_out is None:
            yield invalid(here, part, _CIDR)
        elif left_out.version != whole.version or not _within(left_out, whole):
            yield invalid(here, part, "must be a strict subset of `cidr`")


def _network(text: str) -> Any:
    try:
        return ip_network(text, strict=False) if "/" in text else None
    except ValueError:
        return None


def _within(part: Any, whole: Any) -> bool:
    return part != whole and bool(part.subnet_of(whole))


_RULES: Final[Mapping[GroupKind, Callable[[Obj, Obj], Iterator[Problem]]]] = {
    INGRESS: _ingress,
    CLASS: _class,
    POLICY: _policy,
}
KINDS: Final = frozenset(_RULES)
