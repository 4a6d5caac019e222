"""Containers and images as the runtime of a node reports them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import Enum
from typing import NamedTuple


class ContainerPhase(Enum):
    """States of a container in CRI."""

    CREATED = "created"
    RUNNING = "running"
    EXITED = "exited"
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeContainer:
    """The newest container of a name in one pod.

    `id` carries the runtime's scheme, as in a pod's status (`containerd://…`). `attempt` is the
    restart count that kubelet annotated. Instants are those of the node's clock.
    """

    name: str
    id: str
    phase: ContainerPhase = ContainerPhase.RUNNING
    attempt: int = 0
    created: datetime | None = None
    started: datetime | None = None

    @property
    def runs(self) -> bool:
        return self.phase is ContainerPhase.RUNNING


class HeldImage(NamedTuple):
    """An image in the store of a runtime."""

    id: str
    tags: tuple[str, ...]
    digests: tuple[str, ...]


def newest_by_name(containers: Iterable[NodeContainer]) -> dict[str, NodeContainer]:
    """Return the container of each name that was created last; of two alike the higher attempt."""
    found: dict[str, NodeContainer] = {}
    for container in containers:
        other = found.get(container.name)
        if other is None or _age(other) < _age(container):
            found[container.name] = container
    return found


def runtime_name(container_id: str) -> str:
    """Return the runtime of an id (`containerd`). Raises ValueError for an id without a scheme."""
    scheme, separator, rest = container_id.partition("://")
    if not (scheme and separator and rest):
        raise ValueError(f"container id {container_id!r} names no runtime")
    return scheme


def _age(container: NodeContainer) -> tuple[float, int]:
    return container.created.timestamp() if container.created else 0.0, container.attempt
