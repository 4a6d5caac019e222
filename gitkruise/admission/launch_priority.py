"""Container launch priority at pod creation: every container gets the barrier it waits at.

Source: OpenKruise's pod webhook, container launch priority; it runs after sidecars are injected.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any, Final

from gitkruise.admission.request import AdmissionRequest
from gitkruise.admission.words import invalid, required
from gitkruise.errors import Problem, invalid_object
from gitkruise.model.launch_priority import (
    ANNOTATION,
    BARRIER_ENV,
    ORDERED,
    PRIORITY_ENV,
    barrier_key,
    barrier_of,
    parse_int,
)
from gitkruise.model.settings import Gates
from gitkruise.wire.hashes import safe_encode
from gitkruise.wire.names import Obj
from gitkruise.wire.paths import get, put

_PREFIX_MAX: Final = 58  # characters of generateName that a server keeps before five of its own
_SUFFIX: Final = 5


def order_launch(request: AdmissionRequest, gates: Gates) -> Obj:
    """The pod with its barriers, or as it is when nothing asks for an order.

    Raises InvalidObject naming each priority that is no number.
    """
    assert request.obj is not None
    containers: Sequence[Obj] = get(request.obj, "spec", "containers", default=())
    if not gates.pod_webhook or len(containers) < 2:
        return request.obj
    priorities = _priorities(request, containers)
    if priorities is None:
        return request.obj
    pod = _named(request)
    barrier = barrier_of("", pod["metadata"]["name"]).name
    waiting = [_waits(c, barrier, p) for c, p in zip(containers, priorities, strict=True)]
    return put(pod, ("spec", "containers"), waiting)  # type: ignore[no-any-return]  # an object


def _priorities(request: AdmissionRequest, containers: Sequence[Obj]) -> list[int] | None:
    """One number a container; None when all may start at once."""
    if get(request.obj, "metadata", "annotations", ANNOTATION) == ORDERED:
        return [-at for at in range(len(containers))]
    found, problems = [], []
    for at, container in enumerate(containers):
        wishes = list(_wishes(container, at))
        problems += [wish for wish in wishes if isinstance(wish, Problem)]
        found.append(next((w for w in reversed(wishes) if isinstance(w, int)), 0))
    if problems:
        name = get(request.obj, "metadata", "name") or get(request.obj, "metadata", "generateName")
        raise invalid_object("Pod", "", name or "", problems)
    return found if len(set(found)) > 1 else None


def _wishes(container: Obj, at: int) -> Iterator[int | Problem]:
    for index, env in enumerate(container.get("env") or ()):
        if env.get("name") != PRIORITY_ENV:
            continue
        spot = ("spec", "containers", at, "env", index, "value")
        value = env.get("value") or ""
        if not value:
            yield required(spot, f"{PRIORITY_ENV} must be a decimal integer, and not a reference")
            continue
        try:
            yield parse_int(value)
        except ValueError:
            yield invalid(spot, value, f"{PRIORITY_ENV} must be a decimal integer of 64 bits")


def _named(request: AdmissionRequest) -> Obj:
    """The barrier is named after the pod, so a name to be generated is made now.

    It follows from the review's uid: the same review gives the same name.
    """
    assert request.obj is not None
    meta = request.obj["metadata"]
    if meta.get("name"):
        return request.obj
    drawn = hashlib.sha256(request.uid.encode()).hexdigest()[:_SUFFIX]
    name = (meta.get("generateName") or "")[:_PREFIX_MAX] + safe_encode(drawn)
    return put(request.obj, ("metadata", "name"), name)  # type: ignore[no-any-return]  # an object


def _waits(container: Obj, barrier: str, priority: int) -> Obj:
    """With its barrier as the last variable, in the place of one that was copied along."""
    kept = [env for env in container.get("env") or () if env.get("name") != BARRIER_ENV]
    ref = {"name": barrier, "key": barrier_key(priority)}
    added: dict[str, Any] = {"name": BARRIER_ENV, "valueFrom": {"configMapKeyRef": ref}}
    return {**container, "env": [*kept, added]}
