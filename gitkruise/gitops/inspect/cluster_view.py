"""A cluster as a reader sees it: rollouts and workloads with the marks of git, once or followed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError, Forbidden, NotFound
from gitkruise.gitops.status.observer import STATE_OF
from gitkruise.gitops.status.reader import PodsToGo, UnitNews
from gitkruise.gitops.status.rollout_annotation import annotated_stuck
from gitkruise.kube.cache.layered import OverlaidCache
from gitkruise.kube.cache.list_watch import (
    Empty,
    Feed,
    ListPage,
    Watching,
    WatchState,
    step,
    wanted,
)
from gitkruise.kube.cache.shared import FollowedCache, SharedFeeds
from gitkruise.kube.cache.store import StoreChange
from gitkruise.kube.client.discovery import is_served
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import SETTLED, State
from gitkruise.model.node.pull_job import LIST_PULL_JOB, PULL_JOB
from gitkruise.model.node.recreate_request import RECREATE
from gitkruise.model.planning.budget_matching import budgets_in
from gitkruise.model.planning.unavailable_budget import BUDGET, BudgetFacts
from gitkruise.model.planning.workload_spread import (
    SPREAD,
    Division,
    division,
    spread_of,
    spreads_in,
)
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    SIDECARSET,
    STATEFULSET,
)
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.health.health import health
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.progress.failing_pods import failure, stuck_job
from gitkruise.planner.sync.annotations import (
    ARTIFACT,
    COMMIT,
    PATH,
    PLAN,
    UNIT,
    UNIT_REF,
    annotation,
)
from gitkruise.planner.sync.hooks import JOB, over
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.values.selectors import label_selector

if TYPE_CHECKING:
    from gitkruise.model.planning.plan import Plan

EVENT: Final = GroupKind("", "Event")
WORKLOADS: Final = (
    CLONESET,
    ADVANCED_STATEFULSET,
    SIDECARSET,
    DEPLOYMENT,
    STATEFULSET,
    DAEMONSET,
    JOB,
    GroupKind("batch", "CronJob"),
    RECREATE,
    PULL_JOB,
    LIST_PULL_JOB,
)
# Kinds that a reader's account need not be allowed to list.
_OPTIONAL: Final = frozenset(
    {ADVANCED_STATEFULSET, RECREATE, PULL_JOB, LIST_PULL_JOB, BUDGET, SPREAD}
)
# Kinds that come along with workloads whose pods may have one.
_HEEDED: Final = {
    BUDGET: frozenset({ADVANCED_STATEFULSET, CLONESET, DEPLOYMENT, STATEFULSET}),
    SPREAD: frozenset({CLONESET, DEPLOYMENT}),
}
# They find their pods by spec.selector, and are not followed pod by pod.
_SELECTING: Final = frozenset({JOB})


@dataclass(frozen=True, slots=True, kw_only=True)
class Managed:
    """A live object and its state. `rollout` and `pods` are set for kinds that roll out.

    `failing` are (pod, why) of a workload of another kind: pods of its newest template that cannot
    start, as far as pods were read. `left_git`: the record of its unit does not name it any more.
    """

    key: ObjectKey
    obj: Obj
    state: State
    message: str
    unit: str
    commit: str
    path: str
    artifact: str = ""  # that the commit was imported from, or "" for one of git
    rollout: Rollout | None = None
    pods: tuple[PodFacts, ...] = ()
    failing: tuple[tuple[str, str], ...] = ()
    left_git: bool = False


class Survey:
    """View of the part of a cluster that a command reads: `look` once, then `follow` to watch.

    Pods and revisions come along with kinds that roll out, from all namespaces where they need
    that. Kinds the cluster does not serve are left out. `unread` names the resources that the
    account may not list and the view goes on without.
    """

    def __init__(
        self,
        transport: Transport,
        catalog: Catalog,
        kinds: Iterable[GroupKind],
        *,
        namespace: str = "",
        marked: bool = False,
    ) -> None:
        """`marked`: only objects of units, apart from their pods, revisions and events."""
        self.kinds = tuple(kinds)
        self.namespace = namespace
        self.changed = asyncio.Event()
        self.unread: set[str] = set()
        self._transport = transport
        self._store = OverlaidCache()
        self._marked = marked
        rolling = [ROLLOUTS[gk] for gk in self.kinds if gk in ROLLOUTS]
        along = (POD, *sorted({kind.kept_in for kind in rolling})) if rolling else ()
        heeded = [k for k, by in _HEEDED.items() if by.intersection(self.kinds)]
        if not rolling and _SELECTING.intersection(self.kinds):
            along = (POD,)
        everywhere = along if any(kind.everywhere for kind in rolling) else ()
        feeds = [
            Feed(
                ref=kind.ref,
                kind=kind.kind,
                namespace=namespace if kind.namespaced and gk not in everywhere else "",
                label_selector=UNIT if marked and gk in self.kinds and gk != EVENT else "",
            )
            for gk in (*self.kinds, *along, *heeded)
            if (kind := catalog.stored(gk)) is not None
        ]
        self._followed = SharedFeeds(feeds, transport, self._store, self._note)

    async def look(self) -> None:
        """List everything once. Raises ApiError."""
        async with asyncio.TaskGroup() as tasks:
            for feed in self._followed.feeds:
                tasks.create_task(self._list(feed))

    async def _list(self, feed: Feed) -> None:
        self._followed.own.follow(feed)
        state: WatchState = Empty()
        while not isinstance(state, Watching):
            try:
                reply = await self._transport.send(wanted(state, feed))
            except ApiError as error:
                if isinstance(error, Forbidden) and not await is_served(self._transport, feed.ref):
                    return  # an API server checks the rights before it looks for the kind
                if not self._dispensable(error, feed.group_kind):
                    raise
                if isinstance(error, Forbidden):
                    self.unread.add(f"{feed.ref.plural}.{feed.ref.group}")
                return
            state, events = step(state, ListPage(reply.body), feed)
            for event in events:
                self._followed.own.apply(feed, event)

    async def follow(self, clock: Clock) -> None:
        """Keep up with the cluster and set `changed`, until cancelled."""
        await self._followed.run(clock)

    def share(self, caches: Sequence[FollowedCache]) -> None:
        """Read what this process follows for another purpose in its caches; watch only the rest."""
        self._followed.share(caches)

    @property
    def problem(self) -> str:
        """Return the error that holds up what is followed; "" while all of it is up to date."""
        known = self._followed.informers()
        held_up = ((one.error, feed.group_kind) for feed, one in known if one.error)
        lasting = (str(error) for error, kind in held_up if not self._dispensable(error, kind))
        return next(lasting, "")

    def _dispensable(self, error: ApiError, kind: GroupKind) -> bool:
        """Return whether a reader goes on without a kind: it is not served, or need not be listed
        because the reader did not ask for it alone."""
        optional = kind in _OPTIONAL and self.kinds != (kind,)
        return isinstance(error, NotFound) or (isinstance(error, Forbidden) and optional)

    def _note(self, _: StoreChange) -> None:
        self.changed.set()

    def managed(self, now: datetime, *, name: str = "") -> list[Managed]:
        """The objects as last seen, by namespace, kind and name."""
        found = [
            self._managed(key, obj, now)
            for gk in self.kinds
            for seen in self._store.all_seen(gk)
            if name in {"", (key := seen.key).name} and self._wants(obj := seen.read(), gk)
        ]
        return sorted(found, key=lambda m: (m.key.namespace, m.key.kind, m.key.name))

    def _wants(self, obj: Obj, kind: GroupKind) -> bool:
        """Return whether an object is asked for: a shared cache may have others."""
        return (
            not self._marked or kind == EVENT or UNIT in get(obj, "metadata", "labels", default={})
        )

    def selected(self, m: Managed) -> tuple[PodFacts, ...]:
        """The pods that a workload of Kubernetes selects."""
        if m.key.group_kind not in _SELECTING:
            return ()
        selector = label_selector(get(m.obj, "spec", "selector"))
        return tuple(p for p in self._store.pods(m.key.namespace) if selector.matches(p.labels))

    def budgets(self, namespace: str) -> list[BudgetFacts]:
        """The PodUnavailableBudgets of a namespace, as far as they were read."""
        return budgets_in(self._store, namespace)

    def division(self, m: Managed) -> Division | None:
        """The pods of a workload by subset; None where no WorkloadSpread was read that divides
        them."""
        spread = spread_of(spreads_in(self._store, m.key.namespace), m.key)
        return division(spread, m.pods) if spread is not None else None

    def events(self) -> list[Obj]:
        """Events as last seen, when they were asked for."""
        return self._store.objects(EVENT)

    def plan(self, key: ObjectKey, now: datetime, gates: Gates) -> Plan | None:
        """Return the controller's plan for an object, with its holds.

        None for kinds that gitkruise does not drive, and for deleted objects.
        """
        from gitkruise.planner.workloads import WORKLOADS as DRIVEN  # noqa: PLC0415  every planner

        workload = next((w for w in DRIVEN if w.kind == key.group_kind), None)
        snapshot = workload.observe(self._store, key, now) if workload else None
        return workload.decide(snapshot, gates) if workload and snapshot is not None else None

    def _managed(self, key: ObjectKey, obj: Obj, now: datetime) -> Managed:
        rollout: Rollout | None = None
        pods: Sequence[PodFacts] = ()
        kind = ROLLOUTS.get(key.group_kind)
        if kind is not None:
            pods = kind.pods(self._store, obj)
            rollout = _overdue(obj, kind.judge(obj, pods, kind.revisions(self._store, obj), now))
            state, message = rollout.state, rollout.message
        else:
            state, message = self._judged(key, obj)
        return Managed(
            key=key,
            obj=obj,
            state=state,
            message=message,
            unit=annotation(obj, UNIT_REF),
            commit=annotation(obj, COMMIT),
            path=annotation(obj, PATH),
            artifact=annotation(obj, ARTIFACT),
            rollout=rollout,
            pods=tuple(pods),
            failing=tuple(self._failing(key, obj)),
        )

    def _judged(self, key: ObjectKey, obj: Obj) -> tuple[State, str]:
        """Return the state of an object that does not roll out."""
        if key.group_kind == JOB and not over(obj):
            pods = self._store.pods_of(obj["metadata"]["uid"], key.namespace)
            if why := stuck_job(obj, pods):
                return State.STUCK, why
        return _judged(obj)

    def _failing(self, key: ObjectKey, obj: Obj) -> Iterator[tuple[str, str]]:
        """Yield the pods of a workload's newest template that cannot start."""
        if key.group_kind not in _SELECTING:
            return
        selector = label_selector(get(obj, "spec", "selector"))
        wanted = get(obj, "spec", "template", "spec", "containers", default=())
        images = {c["name"]: c.get("image", "") for c in wanted}
        for pod in self._store.pods(key.namespace):
            if pod.active and selector.matches(pod.labels) and _runs(pod, images):
                own, foreign = failure(pod, images)
                if own or foreign:
                    yield pod.name, own or foreign


def pods_and_images(survey: Survey, m: Managed) -> tuple[tuple[PodFacts, ...], frozenset[str]]:
    """Return the pods of a workload as far as they were read, and the images of its template."""
    listed = get(m.obj, "spec", "template", "spec", "containers", default=())
    images = frozenset(c["image"] for c in listed if c.get("image"))
    return m.pods or survey.selected(m), images


def _runs(pod: PodFacts, images: Mapping[str, str]) -> bool:
    """Return whether a pod is of the template with these images: an older one is replaced."""
    found = {c.name: c.image for c in pod.containers if c.name in images}
    return found == images


def _overdue(obj: Obj, rollout: Rollout) -> Rollout:
    """Return a rollout as Stuck while its annotation says so."""
    if not annotated_stuck(obj, rollout):
        return rollout
    text = f"no pod has moved for longer than health.noProgressTimeout: {rollout.message}"
    return replace(rollout, state=State.STUCK, message=text)


def as_recorded(m: Managed, unit: UnitNews | None) -> Managed:
    """Return an object in the state that its unit's record gives where only that knows it: drift,
    a rejection, or a newer commit that is not sent to the object yet."""
    news = unit.objects.get(m.key) if unit is not None else None
    if unit is None or news is None:
        return m
    reaches = unit.pending and unit.unit == m.unit
    ahead = reaches and news.state is State.WAITING and m.state in SETTLED
    if not ahead and news.state not in {State.DRIFTED, State.REJECTED}:
        return m
    return replace(m, state=news.state, message=news.message)


def _judged(obj: Obj) -> tuple[State, str]:
    if annotation(obj, PLAN) and not get(obj, "spec", "suspend") and not over(obj):
        return State.ROLLING, "the hook runs"
    verdict = health(obj)
    state = STATE_OF[verdict.phase]
    return state, "" if state is State.DONE else verdict.message or verdict.reason


async def pods_now(
    transport: Transport, catalog: Catalog, key: ObjectKey, now: datetime
) -> PodsToGo | None:
    """Return how many pods of a live rollout are not updated yet; None if it has none to count.

    Raises ApiError.
    """
    survey = Survey(transport, catalog, (key.group_kind,), namespace=key.namespace)
    await survey.look()
    found = survey.managed(now, name=key.name)
    rollout = next((m.rollout for m in found if m.key == key), None)
    if rollout is None:
        return None
    left = max(rollout.replicas - rollout.updated, 0)
    return PodsToGo(left, rollout.replicas, rollout.state is State.PAUSED, rollout.kept)
