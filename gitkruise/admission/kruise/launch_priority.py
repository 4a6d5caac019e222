"""Container launch priority at pod creation: gives every container the barrier that it waits at.

Source: OpenKruise's pod webhook, container launch priority; it runs after sidecars are injected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gitkruise.admission.rules.field_errors import invalid, required
from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import Problem, invalid_object
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.launch_priority import (
    ANNOTATION,
    BARRIER_ENV,
    ORDERED,
    PRIORITY_ENV,
    barrier_key,
    barrier_of,
)
from gitkruise.wire.kruise.hashes import safe_encode
from gitkruise.wire.primitives.integers import parse_int
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get, put

_PREFIX_MAX: Final = 58  # characters of generateName that a server keeps before five of its own
_SUFFIX: Final = 5


def order_launch(request: AdmissionRequest, gates: Gates) -> Obj:
    """The pod with its barriers, or as it is when nothing asks for an order.

    Raises InvalidObject naming each priority that is no number.
    """
    containers: Sequence[Obj] = get(request.new, "spec", "containers", default=())
    if not gates.pod_webhook or len(containers) < 2:
        return request.new
    priorities = _priorities(request, containers)
    if priorities is None:
        return request.new
    pod = _named(request)
    barrier = barrier_of("", pod["metadata"]["name"]).name
    waiting = [_waits(c, barrier, p) for c, p in zip(containers, priorities, strict=True)]
    return put(pod, ("spec", "containers"), waiting)  # type: ignore[no-any-return]  # an object


def _priorities(request: AdmissionRequest, containers: Sequence[Obj]) -> list[int] | None:
    """One priority per container; None when all may start together."""
    if get(request.obj, "metadata", "annotations", ANNOTATION) == ORDERED:
        return [-at for at in range(len(containers))]
    found, problems = [], []
    for at, container in enumerate(containers):
        priorities = list(_container_priorities(container, at))
        problems += [item for item in priorities if isinstance(item, Problem)]
        found.append(next((w for w in reversed(priorities) if isinstance(w, int)), 0))
    if problems:
        name = get(request.obj, "metadata", "name") or get(request.obj, "metadata", "generateName")
        raise invalid_object("Pod", "", name or "", problems)
    return found if len(set(found)) > 1 else None


def _container_priorities(container: Obj, at: int) -> Iterator[int | Problem]:
    for index, env in enumerate(container.get("env") or ()):
        if env.get("name") != PRIORITY_ENV:
            continue
        path = ("spec", "containers", at, "env", index, "value")
        value = env.get("value") or ""
        if not value:
            yield required(path, f"{PRIORITY_ENV} must be a decimal integer, and not a reference")
            continue
        try:
            yield parse_int(value)
        except ValueError:
            yield invalid(path, value, f"{PRIORITY_ENV} must be a decimal integer of 64 bits")


def _named(request: AdmissionRequest) -> Obj:
    """The barrier is named after the pod, so a name to be generated is made now.

    It follows from the review's uid: the same review gives the same name.
    """
    meta = request.new["metadata"]
    if meta.get("name"):
        return request.new
    drawn = hashlib.sha256(request.uid.encode()).hexdigest()[:_SUFFIX]
    name = (meta.get("generateName") or "")[:_PREFIX_MAX] + safe_encode(drawn)
    return put(request.new, ("metadata", "name"), name)  # type: ignore[no-any-return]  # an object


def _waits(container: Obj, barrier: str, priority: int) -> Obj:
    """With its barrier as the last variable, in the place of one that was copied along."""
    kept = [env for env in container.get("env") or () if env.get("name") != BARRIER_ENV]
    ref = {"name": barrier, "key": barrier_key(priority)}
    added: dict[str, Any] = {"name": BARRIER_ENV, "valueFrom": {"configMapKeyRef": ref}}
    return {**container, "env": [*kept, added]}
