"""Inventory: the live objects with a unit's label, listed once for all units that start or end
together."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection, Mapping
from typing import Final

from gitkruise.errors import ApiError, Forbidden, MethodNotAllowed, NotFound, leaves
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.discovery import each
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION
from gitkruise.planner.sync.annotations import UNIT, UNIT_REF, annotation
from gitkruise.planner.sync.ownership import mark_of
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey

log = logging.getLogger(__name__)
FRESH_S: Final = 30.0  # what was found so long ago is looked for again
# Served under several names or never applied: scanning them for our label finds nothing new.
NOT_OURS: Final = frozenset(
    {GroupKind("", "Event"), GroupKind("events.k8s.io", "Event"), POD, REVISION,
     GroupKind("", "Endpoints"), GroupKind("discovery.k8s.io", "EndpointSlice"),
     GroupKind("coordination.k8s.io", "Lease"), GroupKind("", "Node")}
)  # fmt: skip


class Inventory:
    """Objects by unit label. The label is the inventory, so no stored list can be lost."""

    def __init__(self, transport: Transport, store: InformerCache, clock: Clock) -> None:
        self._transport, self._store, self._clock = transport, store, clock
        self._found: dict[str, list[ObjectKey]] = {}
        self._found_at = float("-inf")
        self._returned = 0  # of the store, when it was looked at
        # Kinds whose last list failed; Forbidden for those that we may not list.
        self.unlisted: Mapping[GroupKind, ApiError] = {}
        self._looking = asyncio.Lock()

    async def of(
        self, label: str, catalog: Catalog, followed: Collection[GroupKind]
    ) -> list[ObjectKey]:
        """Return every object with the unit label `label`, at most FRESH_S old, without those of
        the `unlisted` kinds. Raises ApiError when no kind can be listed."""
        async with self._looking:
            old = self._clock.monotonic() - self._found_at > FRESH_S
            if old or self._returned != self._store.returned:
                await self._look(catalog, followed)
        return self._found.get(label, [])

    async def listed_now(
        self, catalog: Catalog, followed: Collection[GroupKind]
    ) -> Mapping[str, list[ObjectKey]]:
        """Return every object by its unit label; no list began before this call. Raises
        ApiError."""
        async with self._looking:
            await self._look(catalog, followed)
            for error in _failures(self.unlisted):
                raise error
            return self._found

    async def _look(self, catalog: Catalog, followed: Collection[GroupKind]) -> None:
        """The store holds all labelled objects of the kinds in `followed`; other kinds are listed,
        side by side. Kinds that cannot be listed are skipped: what cannot be seen is not pruned.
        An API server that lists nothing does not answer at all.

        The store is read last: it then has what units wrote until the lists began.
        """
        found: dict[str, list[ObjectKey]] = {}
        returned = self._store.returned
        kinds = listable_kinds(catalog)
        others = [k for gk, k in kinds.items() if gk not in followed]
        failed: dict[GroupKind, ApiError] = {}
        try:
            async with asyncio.TaskGroup() as tasks:
                lists = [tasks.create_task(self._labelled(kind, failed)) for kind in others]
        except ExceptionGroup as endless:  # callers know what a list raises
            raise next(leaves(endless)) from endless
        failures = _failures(failed)
        if others and len(failures) == len(others):
            raise failures[0]
        for listing in lists:
            for label, key in listing.result():
                found.setdefault(label, []).append(key)
        for group_kind in [gk for gk in kinds if gk in followed]:
            for seen in self._store.all_seen(group_kind):
                found.setdefault(mark_of(seen.obj), []).append(seen.key)
        self._found, self._found_at = found, self._clock.monotonic()
        self._returned, self.unlisted = returned, failed

    async def _labelled(
        self, kind: Kind, failed: dict[GroupKind, ApiError]
    ) -> list[tuple[str, ObjectKey]]:
        """Return the label and the key of each labelled object of a kind. One that cannot be listed
        has none, and is added to `failed`."""
        try:
            objects = await labelled_objects(self._transport, kind)
            return [(mark_of(obj), key) for key, obj in objects.items()]
        except ApiError as error:
            level = logging.INFO if isinstance(error, Forbidden) else logging.WARNING
            log.log(level, log_line("inventory-incomplete", kind=kind.ref.plural, error=error))
            failed[kind.group_kind] = error
        return []


def listable_kinds(catalog: Catalog) -> Mapping[GroupKind, Kind]:
    """Return the kinds of a catalog that objects of units can have, each as it is stored."""
    found = {
        k.group_kind: catalog.stored(k.group_kind)
        for k in catalog.kinds()
        if "list" in k.verbs and k.group_kind not in NOT_OURS
    }
    return {group_kind: kind for group_kind, kind in found.items() if kind is not None}


async def labelled_objects(transport: Transport, kind: Kind) -> Mapping[ObjectKey, Obj]:
    """Return the objects of a kind that units applied, by their label. Raises ApiError.

    Those with the label alone are copies: `kubectl expose` takes over the labels of its object.
    """
    try:
        objects = each(transport, kind.ref, selector=UNIT)
        return {listed_key(kind, obj): obj async for obj in objects if annotation(obj, UNIT_REF)}
    except (NotFound, MethodNotAllowed):
        return {}  # known to us, and not to this cluster


def listed_key(kind: Kind, obj: Obj) -> ObjectKey:
    """Return the key of an item of a list, which names no kind."""
    meta = obj["metadata"]
    return ObjectKey(kind.group, kind.kind, meta.get("namespace") or "", meta["name"])


def _failures(unlisted: Mapping[GroupKind, ApiError]) -> list[ApiError]:
    """Return the errors that may pass: a missing right is not among them."""
    return [error for error in unlisted.values() if not isinstance(error, Forbidden)]
