"""Container launch priority on the wire: the barrier that containers wait at, and its keys.

Source: OpenKruise's container launch priority, development head of July 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from gitkruise.model.workloads import labels as wire
from gitkruise.wire.primitives.integers import parse_int
from gitkruise.wire.primitives.names import ObjectKey

if TYPE_CHECKING:
    from gitkruise.model.workloads.pod import Container

ANNOTATION: Final = "apps.kruise.io/container-launch-priority"
ORDERED: Final = "Ordered"  # its only value with a meaning
COMPLETED: Final = "apps.kruise.io/container-launch-priority-completed"
PRIORITY_ENV: Final = "KRUISE_CONTAINER_PRIORITY"
BARRIER_ENV: Final = wire.LAUNCH_BARRIER


def misspelt_order(annotations: Mapping[str, Any]) -> str:
    """The value of the annotation that differs from Ordered in case alone, or ""."""
    found = annotations.get(ANNOTATION)
    misspelt = isinstance(found, str) and found != ORDERED and found.lower() == ORDERED.lower()
    return str(found) if misspelt else ""


def barrier_of(namespace: str, pod: str) -> ObjectKey:
    """The ConfigMap whose keys release the containers of a pod."""
    return ObjectKey("", "ConfigMap", namespace, f"{pod}-barrier")


def barrier_key(priority: int) -> str:
    """`p_5`, `p_-3`: in the barrier, containers of this priority may start."""
    return f"p_{priority}"


def priority_of(key: str) -> int:
    """The number behind the first two characters of a key; 0 when it does not parse."""
    try:
        return parse_int(key[2:])
    except ValueError:
        return 0


def launch_priority(container: Container) -> int | None:
    """The priority a container waits with; None without a barrier. Its first barrier counts.

    A barrier that names no key (written by hand) is ignored.
    """
    for env in container.env or ():
        if env.name == BARRIER_ENV:
            source = env.value_from and env.value_from.config_map_key_ref
            return priority_of(source.key or "") if source else None
    return None
