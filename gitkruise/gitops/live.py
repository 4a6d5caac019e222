"""What is live: the kinds git names, watched by the unit label, and the pods of its workloads."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping
from typing import Final

from gitkruise.errors import ApiError, ClusterFailed, Finding, Forbidden, MethodNotAllowed, NotFound
from gitkruise.gitops.autoscaling import Autoscaled
from gitkruise.gitops.interest import Hearing
from gitkruise.gitops.inventory import Inventory
from gitkruise.kube.clock import Clock
from gitkruise.kube.data import load_catalog
from gitkruise.kube.discovery import listed, served_catalog
from gitkruise.kube.informer import Informer
from gitkruise.kube.queueing import QueuedTransport
from gitkruise.kube.store import Store
from gitkruise.kube.transport import Transport
from gitkruise.kube.watch import Feed
from gitkruise.model.pod import POD
from gitkruise.model.revision import REVISION
from gitkruise.planner.sync.autoscale import AUTOSCALERS
from gitkruise.planner.sync.marks import MANAGER, UNIT
from gitkruise.wire.catalog import Catalog, Kind
from gitkruise.wire.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.request import ApiRequest

log = logging.getLogger(__name__)
AT_ONCE: Final = 64  # requests of all units together
PATIENCE_S: Final = 15.0  # with a list that is to be complete before anything is decided
AGAIN_S: Final = 30.0  # before asking what is served, while something cannot be followed


class LiveView:
    """A Store that follows what somebody wants to see; `run` keeps it going.

    Objects are followed by the unit label, so a cluster full of other people's objects costs
    nothing; pods and revisions are followed whole, in the namespaces that hold workloads.
    """

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.transport = QueuedTransport(transport, at_once=AT_ONCE)
        self.store = Store(managers_beside=MANAGER)
        self.catalog: Catalog = load_catalog()
        self._clock = clock
        self.autoscaled = Autoscaled(self.store)
        self.hearing = Hearing(self.store)
        self._inventory = Inventory(self.transport, self.store, clock)
        self._listable: dict[GroupKind, bool] = {}  # autoscalers, and whether we may list them
        self._asking = asyncio.Lock()
        self._informers: dict[tuple[GroupKind, str], Informer] = {}
        self._new: asyncio.Queue[Informer] = asyncio.Queue()

    async def discover(self) -> None:
        """Learn which kinds this cluster serves. Raises ApiError."""
        self.catalog = await served_catalog(self.transport, load_catalog())

    async def run(self) -> None:
        """Follow everything wanted, now and later; ends by cancellation."""
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(self._look_again())
            while True:
                informer = await self._new.get()
                tasks.create_task(informer.run())

    async def _look_again(self) -> None:
        """A kind that cannot be followed any more may have left the cluster with its definition."""
        while True:
            await self._clock.sleep(AGAIN_S)
            if self.problem() is not None:
                try:
                    await self.discover()
                except ApiError as error:
                    log.info("what the cluster serves is not known: %s", error)

    def want(self, kinds: Mapping[GroupKind, str]) -> list[Informer]:
        """Follow labelled objects of `kinds`, each in the version git speaks ("": as stored).

        Kinds the cluster does not serve are left out, and versions it does not serve become the
        stored one; a kind already followed stays in the version it is followed in.
        """
        spoken = [
            (gk, self.catalog.by_kind(gk.group, version, gk.kind))
            for gk, version in sorted(kinds.items())
        ]
        served = [k if k and k.verbs else self.catalog.stored(gk) for gk, k in spoken]
        return [
            self._follow(_feed(k, selector="" if k.group_kind in AUTOSCALERS else UNIT))
            for k in served
            if k is not None
        ]

    async def autoscalers(self) -> dict[GroupKind, str]:
        """Kinds of autoscalers to follow, other people's among them, where we may list them.

        They are followed whole: whose they are does not matter to the workload. Raises ApiError.
        """
        found: dict[GroupKind, str] = {}
        async with self._asking:  # once for all units that start together
            for kind in AUTOSCALERS:
                served = self.catalog.stored(kind)
                if served is None:
                    continue
                if kind not in self._listable:
                    self._listable[kind] = await self._may_list(served)
                if self._listable[kind]:
                    found[kind] = ""
        return found

    async def _may_list(self, kind: Kind) -> bool:
        request = ApiRequest(verb="list", resource=kind.ref, params={"limit": "1"})
        try:
            await self.transport.send(request)
        except (Forbidden, NotFound, MethodNotAllowed) as error:
            log.info("sizes set by %s are not known: %s", kind.ref.plural, error)
            return False
        return True

    def want_workloads(self, namespaces: Iterable[str]) -> list[Informer]:
        """Follow the pods and revisions of `namespaces`."""
        kinds = [k for gk in (POD, REVISION) if (k := self.catalog.stored(gk)) is not None]
        return [
            self._follow(_feed(kind, namespace=namespace))
            for namespace in sorted(namespaces)
            for kind in kinds
        ]

    async def scan(self, label: str, *, fresh: bool = False) -> list[ObjectKey]:
        """Every object in the cluster with the unit label `label`; looked for anew when `fresh`,
        else as all units that start together find it. Raises ApiError."""
        whole = [
            kind for (kind, space), i in self._informers.items() if not space and i.synced.is_set()
        ]
        return await self._inventory.of(label, self.catalog, frozenset(whole), fresh=fresh)

    async def ready(self, informers: Iterable[Informer]) -> None:
        """Wait until each has delivered a complete list. Raises ClusterFailed GK4103."""
        for informer in informers:
            try:
                async with self._clock.timeout(PATIENCE_S):
                    await informer.synced.wait()
            except TimeoutError:
                raise ClusterFailed(_not_followed(informer)) from None

    def problem(self) -> Finding | None:
        """Why something that the cluster serves is not being followed at the moment."""
        failing = (i for (kind, _), i in self._informers.items() if i.error and self._serves(kind))
        return next((_not_followed(informer) for informer in failing), None)

    def _serves(self, kind: GroupKind) -> bool:
        return self.catalog.stored(kind) is not None

    def _follow(self, feed: Feed) -> Informer:
        place = (feed.group_kind, feed.namespace)
        informer = self._informers.get(place)
        if informer is None:
            informer = Informer(feed, self.transport, self.store, self._clock)
            self._informers[place] = informer
            self._new.put_nowait(informer)
        return informer

    async def everything(self, kind: GroupKind, namespace: str) -> list[Obj]:
        """All objects of a kind, live. Raises ApiError."""
        served = self.catalog.stored(kind)
        if served is None:
            return []
        return await listed(self.transport, served.ref, namespace=namespace)


def _not_followed(informer: Informer) -> Finding:
    return Finding(
        code="GK4103",
        message=f"the cluster does not show its {informer.feed}"
        + (f": {informer.error}" if informer.error else ""),
        notes=(("unchanged", "everything live stays as it is; we go on trying"),),
    )


def _feed(kind: Kind, *, namespace: str = "", selector: str = "") -> Feed:
    return Feed(ref=kind.ref, kind=kind.kind, namespace=namespace, label_selector=selector)
