"""What in the cluster carries a unit's label: looked for once for all units that start together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Collection
from typing import Final

from gitkruise.errors import Forbidden, MethodNotAllowed, NotFound
from gitkruise.kube.clock import Clock
from gitkruise.kube.discovery import each
from gitkruise.kube.store import Store
from gitkruise.kube.transport import Transport
from gitkruise.model.pod import POD
from gitkruise.model.revision import REVISION
from gitkruise.planner.sync.marks import UNIT
from gitkruise.wire.catalog import Catalog, Kind
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.paths import get

log = logging.getLogger(__name__)
FRESH_S: Final = 30.0  # what was found so long ago is looked for again
# Served under several names or never applied: scanning them for our label finds nothing new.
NOT_OURS: Final = frozenset(
    {GroupKind("", "Event"), GroupKind("events.k8s.io", "Event"), POD, REVISION,
     GroupKind("", "Endpoints"), GroupKind("discovery.k8s.io", "EndpointSlice"),
     GroupKind("coordination.k8s.io", "Lease"), GroupKind("", "Node")}
)  # fmt: skip


class Inventory:
    """Objects by unit label. The label is the inventory, so it survives the loss of any list."""

    def __init__(self, transport: Transport, store: Store, clock: Clock) -> None:
        self._transport, self._store, self._clock = transport, store, clock
        self._found: dict[str, list[ObjectKey]] = {}
        self._found_at = float("-inf")
        self._looking = asyncio.Lock()

    async def of(
        self,
        label: str,
        catalog: Catalog,
        followed: Collection[GroupKind],
        *,
        fresh: bool = False,
    ) -> list[ObjectKey]:
        """Every object with the unit label `label`, as of at most FRESH_S ago, or now if `fresh`.

        The store holds all labelled objects of the kinds that are `followed`; the others are
        asked for, kind by kind. Kinds we may not list are passed over: what cannot be seen is not
        pruned. Raises ApiError.
        """
        async with self._looking:
            if fresh or self._clock.monotonic() - self._found_at > FRESH_S:
                self._found = await self._look(catalog, followed)
                self._found_at = self._clock.monotonic()
        return self._found.get(label, [])

    async def _look(
        self, catalog: Catalog, followed: Collection[GroupKind]
    ) -> dict[str, list[ObjectKey]]:
        found: dict[str, list[ObjectKey]] = {}
        kinds = {
            k.group_kind: catalog.stored(k.group_kind)
            for k in catalog.kinds()
            if "list" in k.verbs and k.group_kind not in NOT_OURS
        }
        for group_kind, kind in kinds.items():
            if group_kind in followed:
                for seen in self._store.all_seen(group_kind):
                    found.setdefault(_label(seen.obj), []).append(seen.key)
            elif kind is not None:
                async for obj in self._labelled(kind):
                    found.setdefault(_label(obj), []).append(_key(kind, obj))
        return found

    async def _labelled(self, kind: Kind) -> AsyncIterator[Obj]:
        try:
            async for obj in each(self._transport, kind.ref, selector=UNIT):
                yield obj
        except (NotFound, MethodNotAllowed):
            return  # known to us, and not to this cluster
        except Forbidden as error:
            log.info("not looked for what is ours among %s: %s", kind.ref.plural, error)


def _label(obj: Obj) -> str:
    return str(get(obj, "metadata", "labels", UNIT, default=""))


def _key(kind: Kind, obj: Obj) -> ObjectKey:
    meta = obj["metadata"]
    return ObjectKey(kind.group, kind.kind, meta.get("namespace") or "", meta["name"])
