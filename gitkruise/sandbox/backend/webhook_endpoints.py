"""Address of a webhook's clientConfig, and the name that its certificate must have."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit, urlunsplit

from gitkruise.admission.builtin.endpoints import SLICE
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.endpoint_slices import SERVICE_NAME

HTTPS: Final = 443


class Nowhere(Exception):
    """No address of a service can be called from here; the message has the reason."""


@dataclass(frozen=True, slots=True)
class EndpointAddress:
    """`named` is the address as messages show it; `url` the one that is called."""

    named: str
    url: str
    server_name: str | None = None  # of the certificate, where it is not the host of `url`


def named(client: Obj, timeout_s: int) -> str:
    """The address of a clientConfig as kube-apiserver shows it in messages."""
    service = client.get("service")
    if service is None:
        return f"{client['url']}?timeout={timeout_s}s"
    host = f"{service['name']}.{service['namespace']}.svc:{service.get('port') or HTTPS}"
    return f"https://{host}{_path(service)}?timeout={timeout_s}s"


def place_of(world: World, client: Obj, timeout_s: int) -> EndpointAddress:
    """Raises Nowhere for a service without an address that a program of this host can have.

    A service is looked up as kube-apiserver does it, but for its last step: nothing routes a
    cluster IP here, so the addresses behind it are called. Pods are simulated and answer nothing.
    """
    shown, service = named(client, timeout_s), client.get("service")
    if service is None:
        return EndpointAddress(shown, shown)
    space, name, port = service["namespace"], service["name"], service.get("port") or HTTPS
    found = world.get(ObjectKey("", "Service", space, name))
    if found is None:
        raise Nowhere(f'service "{name}" not found')
    host, number = _address(world, found, port)
    host = f"[{host}]" if ":" in host else host
    url = urlunsplit(urlsplit(shown)._replace(netloc=f"{host}:{number}"))
    return EndpointAddress(shown, url, f"{name}.{space}.svc")


def _path(service: Obj) -> str:
    path = str(service.get("path") or "")
    return path if path.startswith("/") or not path else f"/{path}"


def _address(world: World, service: Obj, port: int) -> tuple[str, int]:
    name, spec = service["metadata"]["name"], service.get("spec") or {}
    if spec.get("type") == "ExternalName":
        return str(spec.get("externalName")), port
    ports = [one for one in spec.get("ports") or () if one.get("port") == port]
    if not ports:
        raise Nowhere(f'no service port {port} found for service "{name}"')
    simulated = False
    for address, number, pod in _behind(world, service, str(ports[0].get("name") or "")):
        if not pod:
            return address, number
        simulated = True
    if simulated:
        raise Nowhere(
            f'service "{name}" leads to pods, which are simulated here and answer nothing:'
            " let it be of type ExternalName with externalName localhost, or use clientConfig.url"
        )
    raise Nowhere(f'no endpoints available for service "{name}"')


def _behind(world: World, service: Obj, port: str) -> Iterator[tuple[str, int, bool]]:
    """(address, port, whether a pod's) of everything that serves the port of that name."""
    meta = service["metadata"]
    space, name = meta["namespace"], meta["name"]
    for piece in world.objects(SLICE, space):
        if (piece["metadata"].get("labels") or {}).get(SERVICE_NAME) == name:
            for number in _numbers(piece.get("ports"), port):
                for one in piece.get("endpoints") or ():
                    if get(one, "conditions", "ready") is not False:
                        yield one["addresses"][0], number, _is_pod(one)
    listed = world.get(ObjectKey("", "Endpoints", space, name)) or {}
    for subset in listed.get("subsets") or ():
        for number in _numbers(subset.get("ports"), port):
            for one in subset.get("addresses") or ():
                yield one["ip"], number, _is_pod(one)


def _numbers(ports: Any, name: str) -> Iterator[int]:
    for one in ports or ():
        if str(one.get("name") or "") == name and one.get("port"):
            yield int(one["port"])


def _is_pod(one: Obj) -> bool:
    return bool(get(one, "targetRef", "kind") == "Pod")
