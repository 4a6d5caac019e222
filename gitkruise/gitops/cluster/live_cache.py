"""Cache of live objects: kinds that git names, by unit label, and the pods of its workloads."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from collections.abc import Set as AbstractSet
from typing import Final

from gitkruise.errors import ApiError, ClusterFailed, Finding, Forbidden, MethodNotAllowed, NotFound
from gitkruise.gitops.cluster.inventory import Inventory
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.layered import LayeredCache
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.shared import FollowedCache
from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.kube.cache.subscriptions import Subscriptions
from gitkruise.kube.client.discovery import listed, served_catalog
from gitkruise.kube.client.events import Recorder
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.client.wrappers import QueuedTransport
from gitkruise.kube.system.clock import Clock
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.labels import REPLICASET
from gitkruise.model.workloads.pod import POD
from gitkruise.model.workloads.revision import REVISION
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.sync.annotations import MANAGER, UNIT
from gitkruise.planner.sync.autoscale import AUTOSCALERS, target_of
from gitkruise.planner.sync.hooks import JOB
from gitkruise.wire.catalog.catalog import Catalog, Kind
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.requests import ApiRequest
from gitkruise.wire.primitives.times import format_time

log = logging.getLogger(__name__)
AT_ONCE: Final = 64  # requests of all units together
PATIENCE_S: Final = 15.0  # with a list that is to be complete before anything is decided
# Followed whatever their labels: ReplicaSets of Deployments carry no unit label.
_WHOLE: Final = frozenset({*AUTOSCALERS, REPLICASET})
WATCHES: Final = "watches"  # the topic of news that a watch fails, or works again
AGAIN_S: Final = 30.0  # before asking what is served, while something cannot be followed
# What kube-apiserver answers with 500 to every read and write that needs a conversion.
_FAILED: Final = re.compile(r"conversion webhook for \S+, Kind=\S+ failed: (.+)", re.DOTALL)
_COLUMNS: Final = "CRD:.metadata.name,BY:.spec.conversion.webhook.clientConfig.service"


class LiveView:
    """An InformerCache that follows what units ask for; `run` keeps it up to date.

    Objects are followed by the unit label, so a cluster full of other people's objects costs
    nothing; pods and revisions are followed whole, in the namespaces that hold workloads, or in all
    of them where controllers of this process share them.
    """

    def __init__(
        self, transport: Transport, clock: Clock, containment: Containment = UNREPORTED
    ) -> None:
        self.transport = QueuedTransport(transport, at_once=AT_ONCE)
        self.events = Recorder(self.transport, clock)
        self.store = InformerCache(applier=MANAGER)
        self.outages = WatchOutages()
        self.catalog: Catalog = load_catalog()
        self._clock, self._containment = clock, containment
        # Topics: keys of objects, uids of owners, WATCHES.
        self.changes: Subscriptions[ObjectKey | str, []] = Subscriptions()
        self.autoscaled = Autoscaled(self.store, self.changes.notify)
        self.store.subscribe(self._on_change)
        self._inventory = Inventory(self.transport, self.store, clock)
        self._listable: dict[GroupKind, bool] = {}  # autoscalers, and whether we may list them
        self._asking = asyncio.Lock()
        self._doubted = False
        self._informers: dict[tuple[GroupKind, str], Informer] = {}
        self._listed: set[GroupKind] = set()  # by informers that were replaced
        self._new: asyncio.Queue[Informer] = asyncio.Queue()
        self._watches: dict[Informer, asyncio.Task[None]] = {}
        self.others: tuple[FollowedCache, ...] = ()  # that controllers of this process follow

    def _on_change(self, change: StoreChange) -> None:
        seen = change.after or change.before
        assert seen is not None
        self.changes.notify((change.key, *seen.owners))

    def _recovered(self) -> None:
        self.changes.notify((WATCHES,))

    async def discover(self) -> None:
        """Read which kinds this cluster serves. Raises ApiError.

        Kinds in a version that is no longer served are followed in the stored one. A kind that is
        not served at all has no objects: its definition was deleted, and they with it.
        """
        known = self.catalog.definitions or ()
        self.catalog = await served_catalog(self.transport, load_catalog(), known)
        for informer in tuple(self._informers.values()):
            now = self.catalog.by_ref(informer.ref)
            stored = self.catalog.stored(informer.feed.group_kind)
            if stored is None:
                self._give_up(informer.feed)
            elif now is None or not now.verbs:
                log.info(
                    log_line("version-changed", kind=informer.feed, version=stored.api_version)
                )
                informer.use(stored.ref)

    async def rediscover(self) -> bool:
        """Discover again after a rejection; return whether the cluster defines its kinds in another
        way now.

        Raises ApiError.
        """
        before, self._doubted = _definitions(self.catalog), False
        await self.discover()
        return _definitions(self.catalog) != before

    def doubt(self) -> None:
        """Discover again soon: a request was rejected, perhaps for its version."""
        self._doubted = True

    async def run(self) -> None:
        """Follow everything that is wanted, now and later, until cancelled."""
        async with asyncio.TaskGroup() as tasks:
            looking = ("the discovery of kinds", self._look_again, self._clock)
            tasks.create_task(self._containment.keep(*looking, lambda _: None))
            events = ("Kubernetes Events", self.events.run, self._clock)
            tasks.create_task(self._containment.keep(*events, lambda _: None))
            while True:
                informer = await self._new.get()
                if self._current(informer) is informer:
                    watch = (f"the watch of {informer.feed}", informer.run, self._clock)
                    keeping = self._containment.keep(*watch, lambda _: None)
                    self._watches[informer] = tasks.create_task(keeping)

    async def _look_again(self) -> None:
        """Discover the kinds again while one cannot be followed, or after a rejection: its
        definition may have been changed or deleted. A watch that goes on failing is news."""
        while True:
            await self._clock.sleep(AGAIN_S)
            silent = self.problem() is not None
            if silent:
                self.changes.notify((WATCHES,))
            if self._doubted or silent:
                try:
                    await self.rediscover()
                except ApiError as error:
                    log.info(log_line("discovery-failed", error=error))

    def want(self, kinds: Mapping[GroupKind, str]) -> list[Informer]:
        """Follow labelled objects of `kinds`, each in git's version ("": the stored one).

        Kinds the cluster does not serve are skipped, and versions it does not serve become the
        stored one; a kind already followed keeps its version.
        """
        spoken = [
            (gk, self.catalog.by_kind(gk.group, version, gk.kind))
            for gk, version in sorted(kinds.items())
        ]
        served = [k if k and k.verbs else self.catalog.stored(gk) for gk, k in spoken]
        return [
            self._follow(_feed(k, selector="" if k.group_kind in _WHOLE else UNIT))
            for k in served
            if k is not None
        ]

    async def autoscalers(self) -> dict[GroupKind, str]:
        """Return the kinds of autoscalers to follow: those that we may list.

        They are followed whole, other people's among them: each may scale a workload of ours.
        Raises ApiError.
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
            log.info(log_line("autoscalers-not-listed", kind=kind.ref.plural, error=error))
            return False
        return True

    def want_workloads(self, places: Mapping[str, frozenset[GroupKind]]) -> list[Informer]:
        """Follow the pods of namespaces, and the given kinds of revisions; "" means all."""
        return [
            self._follow(_feed(kind, namespace=namespace))
            for namespace, kinds in sorted(places.items())
            for gk in sorted({POD, *kinds})
            if (kind := self.catalog.stored(gk)) is not None
        ]

    def share_workloads(self) -> LayeredCache:
        """Return a cache for controllers that write pods and revisions, which it reads here.

        They are listed again: who wrote them before may have stopped a moment ago.
        """
        kinds = self._of_workloads()
        for kind in kinds:
            self._retire(kind.group_kind)
            self._follow(_feed(kind))
        return LayeredCache(self.store, frozenset(kind.group_kind for kind in kinds))

    def _of_workloads(self) -> list[Kind]:
        return [k for gk in (POD, REVISION) if (k := self.catalog.stored(gk)) is not None]

    async def scan(self, label: str) -> list[ObjectKey]:
        """Return every object in the cluster with the unit label `label`, for a unit that starts.

        All units that start together share the lists. Objects of the kinds that are `unscanned`
        afterwards are left out. Raises ApiError.
        """
        return await self._inventory.of(label, self.catalog, self._followed_whole())

    @property
    def unscanned(self) -> Mapping[GroupKind, ApiError]:
        """The kinds that the last scan could not list, each with the error: Forbidden for those
        that it was not allowed to."""
        return self._inventory.unlisted

    async def scan_all(self) -> Mapping[str, list[ObjectKey]]:
        """Return every object in the cluster with a unit label, by label; no list began before
        this call. Raises ApiError."""
        return await self._inventory.listed_now(self.catalog, self._followed_whole())

    def _followed_whole(self) -> frozenset[GroupKind]:
        """Return the kinds that are followed in all namespaces, with a complete list."""
        informers = self._informers.items()
        return frozenset(kind for (kind, space), i in informers if not space and i.synced.is_set())

    async def ready(self, informers: Iterable[Informer]) -> None:
        """Wait until each informer has a complete list. Raises ClusterFailed GK4103."""
        for silent in await self._unready(informers):
            raise ClusterFailed(_not_followed(silent))

    async def mostly_ready(self, informers: Iterable[Informer]) -> None:
        """Do what `ready` does, and leave out the kinds whose lists the API server has rejected
        for a while, as long as it lists others. Raises ClusterFailed GK4103."""
        waited = tuple(informers)
        silent = await self._unready(waited)
        known = len(waited) - len(silent)
        for informer in silent:
            if not known or informer.error is None:
                raise ClusterFailed(_not_followed(informer))

    async def _unready(self, informers: Iterable[Informer]) -> list[Informer]:
        """Return the informers that have no complete list after PATIENCE_S, or after having failed
        for so long."""
        found = []
        for informer in informers:
            try:
                async with self._clock.timeout(PATIENCE_S - self._failing_s(informer)):
                    await self._synced(informer)
            except TimeoutError:
                found.append(self._current(informer))
        return found

    def _failing_s(self, informer: Informer) -> float:
        since = self._current(informer).failing_since
        return (self._clock.now() - since).total_seconds() if since is not None else 0.0

    def unlisted(self, keys: Iterable[ObjectKey]) -> dict[ObjectKey, str]:
        """Return those of `keys` that may be live unseen, each with the kind that was never listed:
        its own, or that of the pods or revisions by which it is judged."""
        never = {
            (kind, space)
            for (kind, space), informer in self._informers.items()
            if not informer.synced.is_set()
            and (kind not in self._listed or informer.error is not None)
        }
        if not never:
            return {}
        found: dict[ObjectKey, str] = {}
        for key in keys:
            for kind in sorted(followed_for([key.group_kind])):
                if not never.isdisjoint({(kind, ""), (kind, key.namespace)}):
                    found[key] = kind.kind
        return found

    async def _synced(self, informer: Informer) -> None:
        """Wait until `informer`, or the one that replaces it meanwhile, has a complete list."""
        await informer.synced.wait()
        while (current := self._current(informer)) is not informer:
            informer = current
            await informer.synced.wait()

    def problem(self, kinds: Collection[GroupKind] | None = None) -> Finding | None:
        """Return the finding for a kind that the cluster serves and that cannot be followed now.

        Only `kinds` count, and what their rollouts are judged by; None: every kind.
        """
        failing = {kind: i for (kind, _), i in self._informers.items() if i.error}
        needed = failing.keys() if kinds is None or not failing else followed_for(kinds)
        found = (i for kind, i in failing.items() if kind in needed and self._serves(kind))
        return next(map(_not_followed, found), None)

    def _serves(self, kind: GroupKind) -> bool:
        return self.catalog.stored(kind) is not None

    def misplaces(self, key: ObjectKey) -> bool:
        """Return whether the cluster serves the kind of `key` in the other scope: its definition
        was replaced."""
        kind = self.catalog.stored(key.group_kind)
        return kind is not None and kind.namespaced != bool(key.namespace)

    def _follow(self, feed: Feed) -> Informer:
        informer = self._follower(feed)
        if informer is None:
            if not feed.namespace:
                self._retire(feed.group_kind)
            informer = Informer(
                feed, self.transport, self.store, self._clock, self._recovered, self.outages
            )
            self._informers[feed.group_kind, feed.namespace] = informer
            self._new.put_nowait(informer)
        return informer

    def _follower(self, feed: Feed) -> Informer | None:
        """Return the informer that shows the objects of `feed`: that of all namespaces, if any."""
        whole = self._informers.get((feed.group_kind, ""))
        return whole or self._informers.get((feed.group_kind, feed.namespace))

    def follows(self, kinds: AbstractSet[GroupKind]) -> bool:
        """Return whether every one of `kinds` is followed."""
        return kinds <= {kind for kind, _ in self._informers}

    def informer_of(self, feed: Feed) -> Informer | None:
        """Return the informer that shows every object of `feed`, and perhaps others; or None."""
        whole = self._informers.get((feed.group_kind, ""))
        return whole if whole is not None and whole.shows(feed) else None

    def _current(self, informer: Informer) -> Informer:
        """Return the informer that replaced `informer`, or itself."""
        return self._follower(informer.feed) or informer

    def _retire(self, kind: GroupKind) -> None:
        """End the informers of a kind, for another one or because it is not served any more."""
        for place in [place for place in self._informers if place[0] == kind]:
            informer = self._informers.pop(place)
            if (watch := self._watches.pop(informer, None)) is not None:
                watch.cancel()
            self.store.unfollow(informer.feed)
            if informer.synced.is_set():
                self._listed.add(kind)
            informer.synced.set()  # who waits for it waits for its successor, if any

    def _give_up(self, feed: Feed) -> None:
        """End the informers of a kind that the cluster does not serve any more."""
        log.warning(log_line("kind-not-served", kind=feed))
        self._retire(feed.group_kind)
        self.store.forget(feed)
        self._recovered()

    async def everything(self, kind: GroupKind, namespace: str) -> list[Obj]:
        """All objects of a kind, live. Raises ApiError."""
        served = self.catalog.stored(kind)
        if served is None:
            return []
        return await listed(self.transport, served.ref, namespace=namespace)


def _definitions(catalog: Catalog) -> frozenset[tuple[str, int]]:
    metas = (crd["metadata"] for crd in catalog.definitions or ())
    return frozenset((meta["uid"], meta.get("generation") or 0) for meta in metas)


def _not_followed(informer: Informer) -> Finding:
    feed, since = informer.feed, informer.failing_since
    what = f"{feed.ref.plural}.{feed.ref.group}".rstrip(".")
    where = f"-n {feed.namespace}" if feed.namespace else "-A"
    next_ = f"kubectl get {what} {where}   shows when the API server lists them again"
    if informer.error and unconverted(informer.error.message):
        next_ = look_at(feed.ref.group)
    return Finding(
        code="GK4103",
        message=f"cannot watch {feed}" + (f": {informer.error}" if informer.error else ""),
        notes=(
            *((("since", format_time(since)),) if since is not None else ()),
            ("unchanged", "the live objects of that kind; the watch is retried"),
            ("next", next_),
        ),
    )


def followed_for(kinds: Collection[GroupKind]) -> frozenset[GroupKind]:
    """Return `kinds` with the kinds of the pods and revisions that their rollouts are judged by."""
    rolling = [ROLLOUTS[kind] for kind in kinds if kind in ROLLOUTS]
    behind = {POD} if rolling or JOB in kinds else set()
    return frozenset(kinds) | behind | {kind.kept_in for kind in rolling}


def _feed(kind: Kind, *, namespace: str = "", selector: str = "") -> Feed:
    return Feed(ref=kind.ref, kind=kind.kind, namespace=namespace, label_selector=selector)


class Autoscaled:
    """Workloads whose replicas autoscalers of the cluster set, updated by events of the cache.

    `notify` is called with the workloads that begin or cease to be scaled.
    """

    def __init__(self, store: InformerCache, notify: Callable[[Iterable[ObjectKey]], None]) -> None:
        self._target: dict[ObjectKey, ObjectKey] = {}
        self._notify = notify
        store.subscribe(self._on_change, frozenset(AUTOSCALERS))

    def targets(self) -> frozenset[ObjectKey]:
        """Return every workload that an autoscaler scales."""
        return frozenset(self._target.values())

    def _on_change(self, change: StoreChange) -> None:
        target = target_of(change.after.read()) if change.after is not None else None
        before = self._target.pop(change.key, None)
        if target is not None:
            self._target[change.key] = target
        if target != before:
            self._notify(filter(None, (before, target)))


def unconverted(message: str) -> str:
    """Return the reason why an API server cannot convert an object; "" for any other failure."""
    found = _FAILED.search(message)
    return found[1] if found else ""


def look_at(group: str) -> str:
    """Return the next step: see which servers convert the objects of the CRDs of `group`."""
    return f"start what converts it: kubectl get crds -o custom-columns={_COLUMNS} | grep {group}"
