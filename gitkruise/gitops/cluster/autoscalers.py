"""The workloads whose replicas autoscalers of the cluster set."""

from __future__ import annotations

from typing import Final

from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.planner.sync.autoscale import AUTOSCALERS, target_of
from gitkruise.wire.primitives.names import ObjectKey

_KINDS: Final = frozenset(AUTOSCALERS)


class Autoscaled:
    """Targets of autoscalers, updated by events of the cache."""

    def __init__(self, store: InformerCache) -> None:
        self._target: dict[ObjectKey, ObjectKey] = {}
        store.subscribe(self._hear, _KINDS)

    def targets(self) -> frozenset[ObjectKey]:
        """Return every workload that an autoscaler scales."""
        return frozenset(self._target.values())

    def _hear(self, change: StoreChange) -> None:
        target = target_of(change.after.read()) if change.after is not None else None
        if target is None:
            self._target.pop(change.key, None)
        else:
            self._target[change.key] = target
