"""Addresses that a metric may name: rules for everybody, and more for objects of the cluster.

A value that is measured appears in records, so an address is a way to read with the network
position of gitkruise. An operator's file may name any. An object may name hosts outside by https
and Services of its own namespace; the addresses that names lead to are checked again when a
connection is made (`gitops.http_get`).
"""

from __future__ import annotations

import re
from typing import Final
from urllib.parse import SplitResult, urlsplit

from gitkruise.gitops.config.forge_checks import LOOPBACK, sendable

_NUMBER: Final = re.compile(r"0x[0-9a-f]*|[0-9]+")  # the last label of an IPv4 address
_CLUSTER: Final = ".cluster.local"


def unusable(address: str, *, secret: bool) -> str:
    """Return why requests cannot be sent to an address, or ""; `secret` for those with one."""
    parts = _split(address)
    if parts is None:
        return "it is not an address with http:// or https:// and a host"
    if parts.username is not None or parts.fragment:
        return "it contains credentials or a fragment"
    if secret and not sendable(address):
        return "credentials are sent by https, or to this machine"
    return ""


def out_of_reach(address: str, namespace: str, *, cross_namespace: bool, local: bool) -> str:
    """Return why an object of `namespace` may not name a usable address, or "".

    `cross_namespace` allows Services of other namespaces, `local` the own machine.
    """
    host = host_of(address)
    if not host:
        return ""
    if is_this_machine(host):
        return "" if local else "it is an address of gitkruise's own machine"
    if is_service(host):
        other = host.split(".")[1]
        foreign = other != namespace and not cross_namespace
        return f"it is a Service of namespace {other}" if foreign else ""
    return _not_outside(host, address)


def _not_outside(host: str, address: str) -> str:
    """Return why a host is not one outside of the cluster that is proven by TLS, or ""."""
    if ":" in host or _NUMBER.fullmatch(host.rpartition(".")[2]):
        return "an object names hosts by DNS names, not by IP addresses"
    if "." not in host or host.endswith((".svc", _CLUSTER)):
        return "a host of the cluster is written NAME.NAMESPACE.svc"
    secure = address.lower().startswith("https:")
    return "" if secure else "http is for Services (NAME.NAMESPACE.svc) only"


def host_of(address: str) -> str:
    """Return the host of an address in lower case, without a dot at the end; "" without one."""
    parts = _split(address)
    return (parts.hostname or "").removesuffix(".") if parts is not None else ""


def is_service(host: str) -> bool:
    """Return whether a host is a Service of the cluster: `web.shop.svc`, also with its domain."""
    labels = host.removesuffix(_CLUSTER).split(".")
    return len(labels) == 3 and labels[2] == "svc" and all(labels)


def is_this_machine(host: str) -> bool:
    """Return whether a host is written as one that is always the own machine."""
    return host in LOOPBACK or host == "localhost" or host.endswith(".localhost")


def _split(address: str) -> SplitResult | None:
    """Return the parts of an http address; None for anything else."""
    try:
        parts = urlsplit(address)
        usable = parts.hostname and parts.port != 0 and "{" not in parts.netloc
    except ValueError:
        return None
    printable = address.isascii() and address.isprintable() and "\\" not in address
    host = bool(usable) and not re.search(r"[\s%@{}]", parts.hostname or "")
    return parts if parts.scheme in {"http", "https"} and host and printable else None
