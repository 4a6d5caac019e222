"""Objects that reviews read next to the reviewed one: from informers where reads are frequent."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from gitkruise.admission.kruise.deletion_protection import looked_at
from gitkruise.admission.rules.request import CREATE, DELETE
from gitkruise.kube.cache.informer import Informer, WatchOutages
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import BUDGET, CLONESET, RECREATE, REPLICASET, SPREAD
from gitkruise.model.workloads.pod import POD
from gitkruise.webhook.budget_guard import BUDGETS
from gitkruise.webhook.review import Review
from gitkruise.webhook.spread_records import SPREADS
from gitkruise.webhook.view_with_read import WithRead
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import NAMESPACES, PODS, ApiRequest, ResourceRef

_LIVE: Final = {
    "Pod": PODS,
    "Namespace": NAMESPACES,
    "Node": ResourceRef("", "v1", "nodes"),
    "ReplicaSet": ResourceRef("apps", "v1", "replicasets"),
}
_LISTED: Final = {
    POD: _LIVE["Pod"],
    GroupKind("", "PersistentVolumeClaim"): ResourceRef("", "v1", "persistentvolumeclaims"),
}
NODE: Final = GroupKind("", "Node")
BELOW_MAX: Final = 500  # objects below a protected one; more are as good a reason
NAMED_MAX: Final = 100  # pods of podsToDelete that are looked up for one review
AT_ONCE: Final = 10


class ClusterContext:
    """SidecarSets, their revisions, namespaces, budgets, WorkloadSpreads and the manager's
    settings, as observed.

    `home` is the namespace in which revisions of SidecarSets and settings live. By `gates`
    PodUnavailableBudgets and WorkloadSpreads are followed.
    """

    def __init__(
        self, transport: Transport, clock: Clock, *, home: str, gates: Gates = Gates()
    ) -> None:
        self.store = InformerCache()
        self._transport = transport
        feeds = [
            Feed(ref=NAMESPACES, kind="Namespace"),
            Feed(ref=ResourceRef("apps.kruise.io", "v1beta1", "sidecarsets"), kind="SidecarSet"),
            Feed(
                ref=ResourceRef("apps", "v1", "controllerrevisions"),
                kind="ControllerRevision",
                namespace=home,
            ),
            Feed(
                ref=ResourceRef("", "v1", "configmaps"),
                kind="ConfigMap",
                namespace=home,
                name_ends="kruise-configuration",
            ),
        ]
        if gates.budgets_pods:
            feeds.append(Feed(ref=BUDGETS, kind=BUDGET.kind))
        if gates.workload_spread:
            feeds.append(Feed(ref=SPREADS, kind=SPREAD.kind))
        outages = WatchOutages()
        self._informers = [
            Informer(feed, transport, self.store, clock, outages=outages) for feed in feeds
        ]
        self._kinds = frozenset(feed.group_kind for feed in feeds)

    @property
    def ready(self) -> bool:
        """Everything has been listed once."""
        return self.store.synced(self._kinds)

    async def observed(self) -> None:
        """Wait until it is ready."""
        for informer in self._informers:
            await informer.synced.wait()

    @property
    def problem(self) -> str:
        """Return why a kind cannot be watched, or ""."""
        found = (f"{i.feed}: {i.error}" for i in self._informers if i.error is not None)
        return "; ".join(found)

    async def run(self) -> None:
        """Follow, until cancelled."""
        async with asyncio.TaskGroup() as group:
            for informer in self._informers:
                group.create_task(informer.run())

    async def view_for(self, review: Review) -> ClusterView:
        """Return the objects that admission may read for `review`. Raises ApiError, in a group."""
        namespace = ObjectKey("", "Namespace", "", review.key.namespace)
        if review.operation == DELETE:
            return await self._below(review)
        wanted = [ObjectKey(*POD, review.key.namespace, name) for name in _pods_named(review)]
        if any(self.store.objects(kind, review.key.namespace) for kind in (BUDGET, SPREAD)):
            wanted += _replica_sets(review)
        if review.key.namespace and self.store.get(namespace) is None:
            wanted.append(namespace)  # so new that the watch has not delivered it
        if not wanted:
            return self.store
        slots = asyncio.Semaphore(AT_ONCE)
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(self._read(key, slots)) for key in wanted]
        results = zip(wanted, (task.result() for task in tasks), strict=True)
        found = {key: obj for key, obj in results if obj is not None}
        if review.key.group_kind == RECREATE:
            found |= await self._nodes_of(found.values(), slots)
        return WithRead(self.store, found)

    async def _nodes_of(
        self, objects: Iterable[Obj], slots: asyncio.Semaphore
    ) -> Mapping[ObjectKey, Obj]:
        """Return the nodes of pods."""
        names = {str(get(obj, "spec", "nodeName") or "") for obj in objects} - {""}
        nodes = {name: await self._read(ObjectKey(*NODE, "", name), slots) for name in names}
        return {ObjectKey(*NODE, "", name): node for name, node in nodes.items() if node}

    async def _below(self, review: Review) -> ClusterView:
        """Return the objects that keep a protected object from deletion."""
        old = review.old or {}
        wanted = looked_at(review.key.group_kind, old)
        async with asyncio.TaskGroup() as group:
            tasks = [
                group.create_task(self._list(_LISTED.get(kind) or _defined(old), namespace))
                for kind, namespace in wanted
            ]
        listed = {key: task.result() for key, task in zip(wanted, tasks, strict=True)}
        return WithRead(self.store, {}, listed)

    async def _list(self, ref: ResourceRef, namespace: str) -> Sequence[Obj]:
        request = ApiRequest(
            verb="list", resource=ref, namespace=namespace, params={"limit": str(BELOW_MAX)}
        )
        items: Sequence[Obj] = (await self._transport.send(request)).body["items"]
        return items

    async def _read(self, key: ObjectKey, slots: asyncio.Semaphore) -> Obj | None:
        async with slots:
            return await find_object(self._transport, _LIVE[key.kind], key.name, key.namespace)


def _pods_named(review: Review) -> Sequence[str]:
    """Pods that a CloneSet newly wants to be deleted, or the one of a new recreate request."""
    if review.key.group_kind == RECREATE and review.obj is not None and review.old is None:
        return list(_texts([get(review.obj, "spec", "podName")]))
    if review.key.group_kind != CLONESET or review.obj is None:
        return ()
    path = ("spec", "scaleStrategy", "podsToDelete")
    wanted, known = (get(obj, *path, default=()) or () for obj in (review.obj, review.old))
    new = dict.fromkeys(n for n in _texts(wanted) if n not in set(_texts(known)))
    return list(new)[:NAMED_MAX]


def _replica_sets(review: Review) -> Sequence[ObjectKey]:
    """The ReplicaSet of a new pod: a budget or a WorkloadSpread may name its Deployment."""
    if review.key.group_kind != POD or review.operation != CREATE or review.obj is None:
        return ()
    owner = controller_of(review.obj) or {}
    if owner.get("kind") != REPLICASET.kind or not isinstance(owner.get("name"), str):
        return ()
    return (ObjectKey(*REPLICASET, review.key.namespace, owner["name"]),)


def _texts(value: object) -> Iterable[str]:
    found = value if isinstance(value, list) else ()
    return [item for item in found if isinstance(item, str) and item]


def _defined(crd: Obj) -> ResourceRef:
    """Return the resource of the objects of a definition."""
    spec = crd["spec"]
    served = next(version["name"] for version in spec["versions"] if version["served"])
    return ResourceRef(spec["group"], served, spec["names"]["plural"])
