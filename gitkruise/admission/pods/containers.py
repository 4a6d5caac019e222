"""Containers of a pod: names, images, ports, mounts and the fields below them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gitkruise.admission.pods.env import env_from_problems, env_problems
from gitkruise.admission.pods.probes import PROBES, hook_problems, probe_problems
from gitkruise.admission.pods.resources import resource_problems
from gitkruise.admission.rules import formats
from gitkruise.admission.rules.engine import (
    EACH,
    Table,
    between,
    like,
    need_number,
    not_negative,
    one_of,
    port_number,
    present,
    unique,
)
from gitkruise.admission.rules.field_errors import Path, duplicate, forbidden, invalid, not_found
from gitkruise.errors import Problem
from gitkruise.wire.primitives.names import Obj

_EPHEMERAL: Final = "cannot be set for an Ephemeral Container"
_NATIVE_ONLY: Final = "may not be set for init containers without restartPolicy=Always"


@dataclass(frozen=True, slots=True, kw_only=True)
class PodContext:
    """Fields of the pod that the rules of its containers depend on."""

    volumes: frozenset[str]
    claims: frozenset[str]  # volumes that are claims, mountable as devices
    grace_s: int
    env_format: formats.Format
    zero_sleep: bool


_HOST_PORT: Final = between(0, 65535, formats.PORT_SENTENCE)
_RULES: Final = Table(
    (("name",), (present, like(formats.dns_label))),
    (("image",), (present,)),
    (("imagePullPolicy",), (present, one_of("Always", "IfNotPresent", "Never"))),
    (("terminationMessagePolicy",), (present, one_of("File", "FallbackToLogsOnError"))),
    (("ports", EACH, "name"), (like(formats.port_name),)),
    (("ports", EACH, "containerPort"), (need_number, port_number)),
    (("ports", EACH, "hostPort"), (_HOST_PORT,)),
    (("ports", EACH, "hostIP"), (like(formats.ip),)),
    (("ports", EACH, "protocol"), (present, one_of("TCP", "UDP", "SCTP"))),
    (("resizePolicy", EACH, "resourceName"), (present, one_of("cpu", "memory"))),
    (
        ("resizePolicy", EACH, "restartPolicy"),
        (present, one_of("NotRequired", "RestartContainer")),
    ),
    (("volumeMounts", EACH, "name"), (present,)),
    (("volumeMounts", EACH, "mountPath"), (present,)),
    (
        ("volumeMounts", EACH, "mountPropagation"),
        (one_of("None", "HostToContainer", "Bidirectional"),),
    ),
    (
        ("volumeMounts", EACH, "recursiveReadOnly"),
        (one_of("Disabled", "IfPossible", "Enabled"),),
    ),
    (("volumeDevices", EACH, ("name", "devicePath")), (present,)),
    (("securityContext", ("runAsUser", "runAsGroup")), (not_negative,)),
    (("securityContext", "procMount"), (one_of("Default", "Unmasked"),)),
    (
        ("securityContext", "seccompProfile", "type"),
        (present, one_of("Localhost", "RuntimeDefault", "Unconfined")),
    ),
    (
        ("securityContext", "appArmorProfile", "type"),
        (present, one_of("Localhost", "RuntimeDefault", "Unconfined")),
    ),
)
_NOT_EPHEMERAL: Final = (*PROBES, "lifecycle", "ports", "resources", "resizePolicy")


def container_problems(
    containers: Sequence[Obj], at: Path, pod: PodContext, taken: set[str], *, init: bool
) -> Iterator[Problem]:
    """One list of containers. `taken` are the names used so far in the pod; it grows."""
    for index, container in enumerate(containers):
        path = (*at, index)
        yield from _RULES.problems(container, path)
        name = container.get("name")
        if name and name in taken:
            yield duplicate((*path, "name"), name)
        taken.add(name or "")
        yield from _content_problems(container, path, pod)
        yield from _role_problems(container, path, init=init)
    if not init:
        yield from _host_port_clashes(containers, at)


def ephemeral_problems(
    containers: Sequence[Obj], at: Path, pod: PodContext, taken: set[str]
) -> Iterator[Problem]:
    """Ephemeral containers. `taken` are the names of the pod's other containers."""
    targets = frozenset(taken)
    yield from container_problems(containers, at, pod, taken, init=False)
    for index, container in enumerate(containers):
        path = (*at, index)
        target = container.get("targetContainerName")
        if target and target not in targets:
            yield not_found((*path, "targetContainerName"), target)
        for field in _NOT_EPHEMERAL:
            if container.get(field):
                yield forbidden((*path, field), _EPHEMERAL)
        for number, mount in enumerate(container.get("volumeMounts") or ()):
            for field in ("subPath", "subPathExpr"):
                if mount.get(field):
                    yield forbidden((*path, "volumeMounts", number, field), _EPHEMERAL)


def _content_problems(container: Obj, at: Path, pod: PodContext) -> Iterator[Problem]:
    image = container.get("image") or ""
    if image.strip() != image:
        text = "must not have leading or trailing whitespace"
        yield invalid((*at, "image"), image, text)
    yield from unique(container.get("ports"), (*at, "ports"), "name")
    yield from env_problems(container.get("env"), (*at, "env"), pod.env_format)
    yield from env_from_problems(container.get("envFrom"), (*at, "envFrom"), pod.env_format)
    yield from probe_problems(container, at)
    yield from hook_problems(
        container.get("lifecycle"), (*at, "lifecycle"), pod.grace_s, zero_sleep=pod.zero_sleep
    )
    yield from resource_problems(container.get("resources") or {}, (*at, "resources"))
    yield from _mount_problems(container, at, pod)
    yield from _device_problems(container, at, pod)
    context = container.get("securityContext") or {}
    if context.get("privileged") and context.get("allowPrivilegeEscalation") is False:
        text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
        yield invalid((*at, "securityContext"), context, text)


def _role_problems(container: Obj, at: Path, *, init: bool) -> Iterator[Problem]:
    """Reject fields that the container's role (regular or init) does not allow."""
    policy = container.get("restartPolicy")
    if not init:
        if policy is not None:
            yield forbidden((*at, "restartPolicy"), "may not be set for non-init containers")
        return
    yield from one_of("Always")(policy, (*at, "restartPolicy"))
    if policy is None:
        for field in ("lifecycle", *PROBES):
            if container.get(field) is not None:
                yield forbidden((*at, field), _NATIVE_ONLY)


def _mount_problems(container: Obj, at: Path, pod: PodContext) -> Iterator[Problem]:
    seen: set[str] = set()
    devices = container.get("volumeDevices") or ()
    names = {device.get("name") for device in devices}
    paths = {device.get("devicePath") for device in devices}
    for index, mount in enumerate(container.get("volumeMounts") or ()):
        path = (*at, "volumeMounts", index)
        name, target = mount.get("name") or "", mount.get("mountPath") or ""
        if name and name not in pod.volumes:
            yield not_found((*path, "name"), name)
        if target in seen:
            yield invalid((*path, "mountPath"), target, "must be unique")
        seen.add(target)
        if name and name in names:
            text = "must not already exist in volumeDevices"
            yield invalid((*path, "name"), name, text)
        if target and target in paths:
            text = "must not already exist as a path in volumeDevices"
            yield invalid((*path, "mountPath"), target, text)
        yield from _sub_path_problems(mount, path)
        privileged = (container.get("securityContext") or {}).get("privileged")
        if mount.get("mountPropagation") == "Bidirectional" and not privileged:
            text = "Bidirectional mount propagation is available only to privileged containers"
            yield forbidden((*path, "mountPropagation"), text)


def _sub_path_problems(mount: Obj, at: Path) -> Iterator[Problem]:
    for field in ("subPath", "subPathExpr"):
        yield from descending_path(mount.get(field), (*at, field))
    if mount.get("subPath") and mount.get("subPathExpr"):
        text = "subPathExpr and subPath are mutually exclusive"
        yield invalid((*at, "subPathExpr"), mount["subPathExpr"], text)


def descending_path(value: Any, at: Path) -> Iterator[Problem]:
    """A path below a directory, that cannot leave it."""
    if value and value.startswith("/"):
        yield invalid(at, value, "must be a relative path")
    if value and ".." in value.split("/"):
        yield invalid(at, value, "must not contain '..'")


def _device_problems(container: Obj, at: Path, pod: PodContext) -> Iterator[Problem]:
    paths: set[str] = set()
    names: set[str] = set()
    mounts = container.get("volumeMounts") or ()
    mounted = {mount.get("name") for mount in mounts}
    places = {mount.get("mountPath") for mount in mounts}
    for index, device in enumerate(container.get("volumeDevices") or ()):
        path = (*at, "volumeDevices", index)
        name, target = device.get("name") or "", device.get("devicePath") or ""
        if name in names:
            yield invalid((*path, "name"), name, "must be unique")
        if name and name not in pod.volumes:
            yield not_found((*path, "name"), name)
        elif name and name not in pod.claims:
            text = "can only use volume source type of PersistentVolumeClaim for block mode"
            yield invalid((*path, "name"), name, text)
        if target in paths:
            yield invalid((*path, "devicePath"), target, "must be unique")
        if name and name in mounted:
            yield invalid((*path, "name"), name, "must not already exist in volumeMounts")
        if target and target in places:
            text = "must not already exist as a path in volumeMounts"
            yield invalid((*path, "devicePath"), target, text)
        names.add(name)
        paths.add(target)


def _host_port_clashes(containers: Sequence[Obj], at: Path) -> Iterator[Problem]:
    seen: set[tuple[Any, ...]] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.get("ports") or ()):
            host_port = port.get("hostPort")
            if not host_port:
                continue
            key = (port.get("protocol"), port.get("hostIP") or "", host_port)
            if key in seen:
                text = "/".join(str(part) for part in key)
                yield duplicate((*at, index, "ports", number, "hostPort"), text)
            seen.add(key)
