"""The pods behind a Service: selection, addresses, ports and readiness.

Source: the rules that kube-controller-manager's two endpoint controllers share (1.34).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from gitkruise.model.workloads.pod import FINISHED
from gitkruise.wire.primitives.names import Obj

FAMILIES: Final = ("IPv4", "IPv6")


class Port(NamedTuple):
    """A Service's port as one pod resolves it."""

    name: str
    port: int
    protocol: str
    app_protocol: str | None


@dataclass(frozen=True, slots=True)
class Backend:
    """A pod with an address that is not over. `ports` are in the order of the Service's."""

    name: str
    namespace: str
    uid: str
    ips: tuple[str, ...]
    ports: tuple[Port, ...]
    node: str
    hostname: str
    ready: bool
    terminating: bool

    @property
    def target(self) -> dict[str, str]:
        """The reference to the pod."""
        return {
            "kind": "Pod",
            "namespace": self.namespace,
            "name": self.name,
            "uid": self.uid,
        }


def selector_of(service: Obj) -> Mapping[str, str]:
    """Return the selector of a Service; {} for one whose endpoints others manage."""
    spec: Obj = service.get("spec") or {}
    found: Mapping[str, str] = spec.get("selector") or {}
    return {} if spec.get("type") == "ExternalName" else found


def selects(selector: Mapping[str, str], pod: Obj) -> bool:
    """Return whether the pod carries all of these labels."""
    labels = pod["metadata"].get("labels") or {}
    return all(labels.get(key) == value for key, value in selector.items())


def headless(service: Obj) -> bool:
    """Return whether the Service has no cluster IP."""
    return service["spec"].get("clusterIP") in (None, "", "None")


def ready_condition(pod: Obj) -> Mapping[str, Any]:
    """The pod's condition Ready, {} while it has none."""
    conditions = (pod.get("status") or {}).get("conditions") or ()
    return next((c for c in conditions if c["type"] == "Ready"), {})


def traits(pod: Obj) -> tuple[object, ...]:
    """Return the parts of a pod that decide its endpoints; other changes are ignored."""
    meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
    return (
        meta.get("labels"),
        bool(meta.get("deletionTimestamp")),
        spec.get("hostname"),
        spec.get("subdomain"),
        status.get("phase") in FINISHED,
        status.get("podIPs") or status.get("podIP"),
        ready_condition(pod).get("status"),
    )


def backends(service: Obj, pods: Iterable[Obj]) -> Iterator[Backend]:
    """The pods of a Service that can be listed, in the order given."""
    ports = service["spec"].get("ports") or ()
    for pod in pods:
        meta, spec, status = pod["metadata"], pod["spec"], pod.get("status") or {}
        ips = tuple(one["ip"] for one in status.get("podIPs") or () if one.get("ip"))
        if status.get("phase") in FINISHED or not ips:
            continue
        named = spec.get("hostname") and spec.get("subdomain") == service["metadata"]["name"]
        resolved = (_resolved(port, spec) for port in ports)
        yield Backend(
            name=meta["name"],
            namespace=meta["namespace"],
            uid=meta["uid"],
            ips=ips,
            ports=tuple(port for port in resolved if port),
            node=spec.get("nodeName") or "",
            hostname=spec["hostname"] if named else "",
            ready=ready_condition(pod).get("status") == "True",
            terminating=bool(meta.get("deletionTimestamp")),
        )


def of_family(backend: Backend, family: str) -> list[str]:
    """The pod's addresses of a family."""
    return [ip for ip in backend.ips if (":" in ip) == (family == "IPv6")]


def _resolved(port: Obj, spec: Obj) -> Port | None:
    """A Service's port in a pod; None where no container has a port of the name."""
    target, protocol = port.get("targetPort"), port.get("protocol") or "TCP"
    if isinstance(target, str):
        target = next(_named(target, protocol, spec), None)
    if target is None:
        return None
    return Port(port.get("name") or "", target, protocol, port.get("appProtocol"))


def _named(name: str, protocol: str, spec: Obj) -> Iterator[int]:
    sidecars = (c for c in spec.get("initContainers") or () if c.get("restartPolicy") == "Always")
    for container in (*spec["containers"], *sidecars):
        for port in container.get("ports") or ():
            if port.get("name") == name and (port.get("protocol") or "TCP") == protocol:
                yield port["containerPort"]
