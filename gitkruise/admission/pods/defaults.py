"""Defaults that kube-apiserver sets in pod specs, of pods and of templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from gitkruise.wire.kruise.template_defaults import (
    Defaults,
    Node,
    fill,
    fill_pod_spec,
    maps_at,
    print_amounts,
    round_up,
)
from gitkruise.wire.values.images import default_pull_policy

_ALL: Final = ("containers", "initContainers", "ephemeralContainers")
_RUNNING: Final = ("containers", "initContainers")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_CLAIM: Final = ("volumes", "*", "ephemeral", "volumeClaimTemplate", "spec")

_DIVISORS: Final = (
    (_ALL, "*", "env", "*", "valueFrom", "resourceFieldRef"),
    ("volumes", "*", "downwardAPI", "items", "*", "resourceFieldRef"),
    ("volumes", "*", "projected", "sources", "*", "downwardAPI", "items", "*", "resourceFieldRef"),
)

# beyond what OpenKruise fills in: Kubernetes' generated defaults and the server's way of printing
_SERVER: Final = Defaults((
    (("ephemeralContainers", "*"), "terminationMessagePath", "/dev/termination-log"),
    (("ephemeralContainers", "*"), "terminationMessagePolicy", "File"),
    ((_ALL, "*", _PROBES, "grpc"), "service", ""),
    *((path, "divisor", "0") for path in _DIVISORS),
    (_CLAIM, "volumeMode", "Filesystem"),
    (("volumes", "*", "iscsi"), "iscsiInterface", "default"),
    (("volumes", "*", "rbd"), "pool", "rbd"),
    (("volumes", "*", "rbd"), "user", "admin"),
    (("volumes", "*", "rbd"), "keyring", "/etc/ceph/keyring"),
    (("volumes", "*", "azureDisk"), "cachingMode", "ReadWrite"),
    (("volumes", "*", "azureDisk"), "kind", "Shared"),
    (("volumes", "*", "azureDisk"), "fsType", "ext4"),
    (("volumes", "*", "azureDisk"), "readOnly", False),
    (("volumes", "*", "scaleIO"), "fsType", "xfs"),
    (("volumes", "*", "scaleIO"), "storageMode", "ThinProvisioned"),
))  # fmt: skip
_AMOUNTS: Final = (
    (("volumes", "*", "emptyDir"), "sizeLimit"),
    *((path, "divisor") for path in _DIVISORS),
)
_CLAIM_AMOUNTS: Final = ((*_CLAIM, "resources", ("limits", "requests")),)


def fresh(value: Any) -> Any:
    """A copy of our own to fill, without nulls and empty lists, as a typed server keeps it."""
    if isinstance(value, Mapping):
        kept = {key: fresh(item) for key, item in value.items() if item is not None}
        return {key: item for key, item in kept.items() if item != []}
    if isinstance(value, list | tuple):
        return [fresh(item) for item in value if item is not None]
    return value


def fill_spec(spec: Node, *, is_pod: bool) -> None:
    """Fill a pod spec made by `settle`, in place: SetDefaults_PodSpec and, for pods, of Pod.

    Raises Malformed on a bad amount.
    """
    if is_pod:
        spec.setdefault("enableServiceLinks", True)
        _requests_from_limits(spec)
        _host_ports(spec)
    fill_pod_spec(spec, default_pull_policy)
    fill(spec, _SERVER)
    for container in maps_at(spec, ("ephemeralContainers", "*")):
        container.setdefault("imagePullPolicy", default_pull_policy(container.get("image", "")))
    for source in maps_at(spec, ("volumes", "*", "image")):
        source.setdefault("pullPolicy", default_pull_policy(source.get("reference", "")))
    print_amounts(spec, _AMOUNTS)
    round_up(spec, _CLAIM_AMOUNTS)
    if spec.get("serviceAccountName") or spec.get("serviceAccount"):
        name = spec.get("serviceAccountName") or spec["serviceAccount"]
        spec["serviceAccountName"] = spec["serviceAccount"] = name


def _requests_from_limits(spec: Node) -> None:
    for resources in maps_at(spec, (_RUNNING, "*", "resources")):
        limits = resources.get("limits")
        if limits:
            resources["requests"] = {**limits, **resources.get("requests", {})}


def _host_ports(spec: Node) -> None:
    if spec.get("hostNetwork"):
        for port in maps_at(spec, (_RUNNING, "*", "ports", "*")):
            if not port.get("hostPort") and port.get("containerPort"):
                port["hostPort"] = port["containerPort"]
