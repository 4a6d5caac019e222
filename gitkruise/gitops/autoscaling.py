"""The workloads that autoscalers of the cluster size at this moment."""

from __future__ import annotations

from typing import Final

from gitkruise.kube.store import Change, Store
from gitkruise.planner.sync.autoscale import AUTOSCALERS, target_of
from gitkruise.wire.names import ObjectKey

_KINDS: Final = frozenset(AUTOSCALERS)


class Autoscaled:
    """Kept up to date by what the store hears of autoscalers."""

    def __init__(self, store: Store) -> None:
        self._target: dict[ObjectKey, ObjectKey] = {}
        store.subscribe(self._hear, _KINDS)

    def targets(self) -> frozenset[ObjectKey]:
        """Every workload that some autoscaler sizes."""
        return frozenset(self._target.values())

    def _hear(self, change: Change) -> None:
        target = target_of(change.after.read()) if change.after is not None else None
        if target is None:
            self._target.pop(change.key, None)
        else:
            self._target[change.key] = target
