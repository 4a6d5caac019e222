"""Sidecar terminator: when the main containers of a run-to-completion pod are done, end the rest.

Sidecars end by a ContainerRecreateRequest, which a node agent carries out; on a virtual kubelet by
an image that exits immediately. Those whose exit code is to be ignored end last, after the pod's
phase shows how its main containers ended.

Source: OpenKruise's sidecar terminator (gate SidecarTerminator).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, Final

from gitkruise.model.planning.plan import Create, Event, Patch, Plan
from gitkruise.model.workloads.labels import SIDECAR_TERMINATED
from gitkruise.model.workloads.pod import FINISHED, PodFacts
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH
from gitkruise.wire.primitives.times import format_time

RECREATE: Final = GroupKind("apps.kruise.io", "ContainerRecreateRequest")
NODE: Final = GroupKind("", "Node")
WHEN_EXIT: Final = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT"
WITH_IMAGE: Final = "KRUISE_TERMINATE_SIDECAR_WHEN_JOB_EXIT_WITH_IMAGE"
IGNORE_EXIT: Final = "KRUISE_TERMINATE_SIDECAR_IGNORE_EXIT_CODE"
NODE_RETRY: Final = timedelta(seconds=5)


class ContainerGroup(Enum):
    """Way to end a container; MAIN and UNREACHABLE are not ended."""

    MAIN = "main"
    IN_PLACE = "in place"
    NORMAL = "normal"
    IGNORED = "exit code ignored"
    UNREACHABLE = "unreachable"  # a virtual kubelet runs it and no image is named, or the reverse


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """A pod with sidecars to end. `node` is None when it is not known (yet)."""

    raw: Obj
    node: Obj | None
    requests: frozenset[str]  # names of recreate requests that exist among ours
    now: datetime


def has_sidecars(pod: PodFacts) -> bool:
    """Return whether any container asks to be ended with the main ones."""
    return any(
        env.name in {WHEN_EXIT, WITH_IMAGE} and env.value
        for container in pod.containers
        for env in container.env or ()
    )


def waits_for_others(container: Obj) -> bool:
    """Return whether the raw `container` runs until it is ended with the main ones.

    The image that ends one on a virtual kubelet exits by itself.
    """
    return _is_sidecar(container) and _image(container) != container["image"]


def request_names(uid: str) -> tuple[str, str]:
    """The recreate requests for normal sidecars and for those whose exit code is ignored.

    OpenKruise gives both the same name, so that the second is never made after the first.
    """
    name = f"sidecar-termination-{uid}"
    return name, f"{name}-ignored"


def plan_ending(ending: Ending) -> Plan:
    """Plan the next step; an empty plan when the pod is not at that point, or already done."""
    raw = ending.raw
    ended = _ended(raw)
    if ended is None or not _is_due(raw, ended):
        return Plan()
    if ending.node is None:
        return Plan(wake_at=ending.now + NODE_RETRY)
    virtual = get(ending.node, "metadata", "labels", "type") == "virtual-kubelet"
    groups: dict[ContainerGroup, list[Obj]] = {group: [] for group in ContainerGroup}
    for container in raw["spec"]["containers"]:
        groups[_group(container, virtual=virtual)].append(container)
    actions: list[Create | Patch] = []
    images = [
        c for c in groups[ContainerGroup.IN_PLACE] if _goes_on(c, ended) and _image(c) != c["image"]
    ]
    if images:
        actions.append(_change_images(raw, images))
    normal, ignored = request_names(raw["metadata"]["uid"])
    running = [c["name"] for c in groups[ContainerGroup.NORMAL] if _goes_on(c, ended)]
    if running and normal not in ending.requests:
        actions.append(_recreate(raw, normal, running))
    others = (*groups[ContainerGroup.NORMAL], *groups[ContainerGroup.IN_PLACE])
    if groups[ContainerGroup.IGNORED] and not any(_goes_on(c, ended) for c in others):
        actions += _conclude(ending, groups, ended)
        left = [c["name"] for c in groups[ContainerGroup.IGNORED] if _goes_on(c, ended)]
        if left and ignored not in ending.requests:
            actions.append(_recreate(raw, ignored, left))
    return Plan(actions=tuple(actions))


def _ended(raw: Obj) -> Mapping[str, int | None] | None:
    """Exit code by container, None while it goes on; None unless every container has a status."""
    statuses: Sequence[Obj] = get(raw, "status", "containerStatuses", default=())
    found = {s["name"]: get(s, "state", "terminated") for s in statuses}
    names = {container["name"] for container in raw["spec"]["containers"]}
    if len(statuses) != len(names) or found.keys() != names:
        return None
    return {n: None if e is None else int(e.get("exitCode") or 0) for n, e in found.items()}


def _is_due(raw: Obj, ended: Mapping[str, int | None]) -> bool:
    """The main containers are done as the restart policy wants it, and sidecars still run."""
    policy = get(raw, "spec", "restartPolicy", default="Always")
    if raw["metadata"].get("deletionTimestamp") or policy == "Always":
        return False
    if get(raw, "status", "phase") == "Pending":
        return False
    codes = [ended[c["name"]] for c in raw["spec"]["containers"] if not _is_sidecar(c)]
    sidecars = [c for c in raw["spec"]["containers"] if _is_sidecar(c)]
    if not codes or not any(_goes_on(c, ended) for c in sidecars):
        return False
    return all(c == 0 for c in codes) if policy == "OnFailure" else None not in codes


def _goes_on(container: Obj, ended: Mapping[str, int | None]) -> bool:
    return ended[container["name"]] is None


def _value(container: Obj, name: str) -> str:
    found = (e.get("value") for e in container.get("env") or () if e["name"] == name)
    return next(found, None) or ""


def _image(container: Obj) -> str:
    return _value(container, WITH_IMAGE)


def _is_sidecar(container: Obj) -> bool:
    return _value(container, WHEN_EXIT).lower() == "true" or bool(_image(container))


def _group(container: Obj, *, virtual: bool) -> ContainerGroup:
    if not _is_sidecar(container):
        return ContainerGroup.MAIN
    if virtual:
        return ContainerGroup.IN_PLACE if _image(container) else ContainerGroup.UNREACHABLE
    if _value(container, WHEN_EXIT).lower() != "true":
        return ContainerGroup.UNREACHABLE
    ignored = _value(container, IGNORE_EXIT).lower() == "true"
    return ContainerGroup.IGNORED if ignored else ContainerGroup.NORMAL


def _change_images(raw: Obj, containers: Sequence[Obj]) -> Patch:
    images = [{"name": c["name"], "image": _image(c)} for c in containers]
    return Patch.of(
        raw,
        {"spec": {"containers": images}},
        content_type=STRATEGIC_PATCH,
        done=_event([c["name"] for c in images]),
    )


def _conclude(
    ending: Ending, groups: Mapping[ContainerGroup, Sequence[Obj]], ended: Mapping[str, int | None]
) -> list[Patch]:
    """The phase that the main containers earned, before sidecars can spoil it."""
    raw = ending.raw
    if get(raw, "status", "phase") in FINISHED:
        return []
    well = all(ended[c["name"]] == 0 for c in groups[ContainerGroup.MAIN])
    condition = {
        "type": SIDECAR_TERMINATED,
        "status": "True",
        "lastTransitionTime": format_time(ending.now),
        "message": "all main containers have ended; sidecars whose exit code is ignored follow",
    }
    phase = "Succeeded" if well else "Failed"
    body = {"status": {"phase": phase, "conditions": [condition]}}
    return [Patch.of(raw, body, content_type=STRATEGIC_PATCH, subresource="status")]


def _recreate(raw: Obj, name: str, containers: Sequence[str]) -> Create:
    meta = raw["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": meta["name"], "uid": meta["uid"]}
    body: dict[str, Any] = {
        "apiVersion": f"{RECREATE.group}/v1beta1",
        "kind": RECREATE.kind,
        "metadata": {
            "namespace": meta["namespace"],
            "name": name,
            "ownerReferences": [{**owner, "controller": True, "blockOwnerDeletion": True}],
        },
        "spec": {
            "podName": meta["name"],
            "containers": [{"name": container} for container in containers],
            "strategy": {"forceRecreate": True, "failurePolicy": "Ignore"},
        },
    }
    return Create(obj=body, done=_event(containers))


def _event(containers: Sequence[str]) -> Event:
    names = ", ".join(containers)
    return Event("Normal", "SidecarTerminator", f"Main containers are done; stopping {names}")
