"""Following created requests to their end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from gitkruise.errors import Finding, TimedOut
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.health import Health, Phase
from gitkruise.planner.health.health import health
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.requests import ResourceRef

PAUSE_S: Final = 0.2
ENDED: Final = frozenset({Phase.CURRENT, Phase.FAILED, Phase.NOT_FOUND, Phase.TERMINATING})
OnState = Callable[[ObjectKey, Health], None]
Seen = dict[ObjectKey, tuple[Obj, Health]]


async def follow(
    transport: Transport,
    clock: Clock,
    resource: ResourceRef,
    created: Sequence[Obj],
    limit: tuple[str, float],
    on_state: OnState,
) -> list[tuple[Obj, Health]]:
    """Return each object with its health once all ended. `on_state` gets each change of a health.

    `limit` is the longest time, as written and in seconds. A deleted object stays as it was last
    seen. Raises TimedOut GK4605.
    """
    text, seconds = limit
    end = clock.monotonic() + seconds
    seen: Seen = {key_of(obj): (obj, health(obj)) for obj in created}
    for key, (_, state) in seen.items():
        on_state(key, state)
    while open_ := _open(seen):
        for key in open_:
            obj, before = seen[key]
            obj, state = await _look(transport, resource, key, obj)
            seen[key] = obj, state
            if state != before:
                on_state(key, state)
        if not _open(seen):
            break
        if clock.monotonic() >= end:
            raise TimedOut(_late(text, seen))
        await clock.sleep(PAUSE_S)
    return list(seen.values())


def _open(seen: Seen) -> list[ObjectKey]:
    return [key for key, (_, state) in seen.items() if state.phase not in ENDED]


async def _look(
    transport: Transport, resource: ResourceRef, key: ObjectKey, last: Obj
) -> tuple[Obj, Health]:
    obj = await find_object(transport, resource, key.name, key.namespace)
    if obj is None:
        message = "the request was deleted before its end was seen"
        return last, Health(Phase.NOT_FOUND, "Deleted", message)
    return obj, health(obj)


def _late(timeout: str, seen: Seen) -> Finding:
    key, *_ = open_ = _open(seen)
    texts = "; ".join(f"{one.name}: {seen[one][1].message}" for one in open_)
    return Finding(
        code="GK4605",
        message=f"not finished after {timeout}",
        notes=(
            ("seen", texts),
            ("unchanged", "the request stays, and its agent goes on"),
            ("next", f"kubectl get {key.kind.lower()} {key.name} -n {key.namespace} -o yaml"),
        ),
    )
