"""A cluster as a reader sees it: rollouts and workloads with the marks of git, once or followed."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.admission.conversion.registry import CONVERSIONS, convertible
from gitkruise.errors import Forbidden, NotFound
from gitkruise.gitops.status.observer import STATE_OF
from gitkruise.gitops.status.reader import PodsToGo, RecordedUnit
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
from gitkruise.model.planning.budget_matching import budgets_in
from gitkruise.model.planning.unavailable_budget import BudgetFacts
from gitkruise.model.planning.workload_spread import Division, division, spread_of, spreads_in
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import (
    ADVANCED_STATEFULSET,
    BUDGET,
    CLONESET,
    DAEMONSET,
    DEPLOYMENT,
    SIDECARSET,
    SPREAD,
    STATEFULSET,
)
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.model.workloads.rollout_kinds import REPORTING
from gitkruise.planner.health.health import health
from gitkruise.planner.health.kinds import ROLLOUTS
from gitkruise.planner.progress.failing_pods import failure, stuck_job, template_images
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
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey, short_name
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
    *REPORTING,
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
    `refused`: the API server's answer to the creation of a pod, where it is read from Events.
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
    refused: str = ""


class Survey:
    """View of the part of a cluster that a command reads: `look` once, then `follow` to watch.

    Pods and revisions come along with kinds that roll out, from all namespaces where they need
    that. Kinds the cluster does not serve are left out, and so are those that the account may not
    list, or not with their pods and revisions: without these their states are not known.
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
        self._refused: dict[Feed, Forbidden] = {}  # by `look`
        self._unserved: set[Feed] = set()  # as it found out
        self._transport = transport
        self._store = OverlaidCache()
        self._marked = marked
        rolling = [ROLLOUTS[gk] for gk in self.kinds if gk in ROLLOUTS]
        along = (POD, *sorted({kind.kept_in for kind in rolling})) if rolling else ()
        heeded = [k for k, by in _HEEDED.items() if by.intersection(self.kinds)]
        if not rolling and _SELECTING.intersection(self.kinds):
            along = (POD,)
        rests_on = {*along, *heeded, EVENT}  # of which objects without marks are read, too
        everywhere = along if any(kind.everywhere for kind in rolling) else ()
        feeds = [
            Feed(
                ref=kind.ref,
                kind=kind.kind,
                namespace=namespace if kind.namespaced and gk not in everywhere else "",
                label_selector="" if gk in rests_on or not marked else UNIT,
            )
            for gk in dict.fromkeys((*self.kinds, *along, *heeded))
            if (kind := catalog.stored(gk)) is not None
        ]
        self._older = _older(feeds, catalog)
        self._followed = SharedFeeds(feeds, transport, self._store, self._note)

    async def look(self) -> None:
        """List everything once. Raises ApiError: Forbidden where no kind may be listed."""
        async with asyncio.TaskGroup() as tasks:
            for feed in self._followed.feeds:
                tasks.create_task(self._list(feed))
        if error := self._nothing_left():
            raise error

    async def _list(self, feed: Feed) -> None:
        self._followed.own.follow(feed)
        state: WatchState = Empty()
        while not isinstance(state, Watching):
            try:
                reply = await self._transport.send(wanted(state, feed))
            except NotFound:
                await self._list_older(feed)
                return
            except Forbidden as error:
                # An API server checks the rights before it looks for the kind.
                if await is_served(self._transport, feed.ref):
                    await self._go_on_without(feed, error)
                else:
                    self._unserved.add(feed)
                    await self._list_older(feed)
                return
            state, events = step(state, ListPage(reply.body), feed)
            for event in events:
                self._followed.own.apply(feed, event)

    async def _list_older(self, feed: Feed) -> None:
        """List and follow a kind that the cluster serves in an earlier version alone, as OpenKruise
        did with CloneSets."""
        for older in self._older.get(feed, ()):
            await self._list(older)
            feeds = self._followed.feeds
            self._followed.feeds = [older if one == feed else one for one in feeds]

    async def _go_on_without(self, feed: Feed, error: Forbidden) -> None:
        """Note a refusal. Pods and revisions that may not be read of all namespaces are read of
        the requested one."""
        self._refused[feed] = error
        if self.namespace and not feed.namespace and feed.group_kind not in self.kinds:
            await self._list(replace(feed, namespace=self.namespace))

    async def follow(self, clock: Clock) -> None:
        """Keep up with the cluster and set `changed`, until cancelled."""
        await self._followed.run(clock)

    def share(self, caches: Sequence[FollowedCache]) -> None:
        """Read what this process follows for another purpose in its caches; watch only the rest."""
        self._followed.share(caches)

    @property
    def problem(self) -> str:
        """Return the error that holds up what is followed; "" while all of it is up to date."""
        errors = (one.error for _, one in self._followed.informers() if one.error)
        lasting = (str(error) for error in errors if not isinstance(error, NotFound | Forbidden))
        return next(lasting, str(self._nothing_left() or ""))

    @property
    def left_out(self) -> set[str]:
        """Return the requested kinds that the account may not list, or not with what they need."""
        return {_lacking(gk, feed) for gk, feed in self._left_out().items()}

    @property
    def unread(self) -> set[str]:
        """Return what is left out, and other kinds that the view goes on without."""
        heeded = (feed for feed in self._refusals() if feed.group_kind in _HEEDED)
        return self.left_out | {_lacking(feed.group_kind, feed) for feed in heeded}

    def _nothing_left(self) -> Forbidden | None:
        """Return a refusal if no requested kind that the cluster serves can be shown."""
        left_out = self._left_out()
        served = {f.group_kind for f in self._followed.feeds if f not in self._unserved}
        if not left_out or served.intersection(self.kinds) - left_out.keys():
            return None
        return self._refusals()[next(iter(left_out.values()))]

    def _left_out(self) -> dict[GroupKind, Feed]:
        """Return the requested kinds that are not shown, each with the feed that was refused: its
        own, or that of the pods or revisions that its state rests on."""
        refusals, found = self._refusals(), {}
        for gk in self.kinds:
            rolls = ROLLOUTS.get(gk)
            scope = "" if rolls is not None and rolls.everywhere else self.namespace
            rests_on = (POD, rolls.kept_in) if rolls else (POD,) if gk in _SELECTING else ()
            own = [feed for feed in refusals if feed.group_kind == gk]
            along = [f for f in refusals if f.group_kind in rests_on and f.namespace == scope]
            if refused := next(iter((*own, *along)), None):
                found[gk] = refused
        return found

    def _refusals(self) -> dict[Feed, Forbidden]:
        """Return the feeds that the account may not list; a watch knows that better than a look."""
        followed = {feed: one.error for feed, one in self._followed.informers()}
        watched = {f: error for f, error in followed.items() if isinstance(error, Forbidden)}
        known = {f: e for f, e in self._refused.items() if f not in followed} | watched
        return {feed: error for feed, error in known.items() if feed not in self._unserved}

    def _note(self, _: StoreChange) -> None:
        self.changed.set()

    def managed(self, now: datetime, *, name: str = "") -> list[Managed]:
        """The objects as last seen, by namespace, kind and name."""
        left_out = self._left_out()
        found = [
            self._managed(key, obj, now)
            for gk in self.kinds
            if gk not in left_out
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
        images = template_images(get(obj, "spec", "template", default={}))
        for pod in self._store.pods(key.namespace):
            if pod.active and selector.matches(pod.labels) and _runs(pod, images):
                own, foreign = failure(pod, images)
                if own or foreign:
                    yield pod.name, own or foreign


def _older(feeds: Iterable[Feed], catalog: Catalog) -> dict[Feed, list[Feed]]:
    """Return feeds of the other versions of each kind: those that can be converted, or that need
    no conversion."""
    return {
        feed: [
            replace(feed, ref=kind.ref)
            for kind in catalog.kinds()
            if kind.group_kind == feed.group_kind
            and kind.version != feed.ref.version
            and (
                kind.group_kind not in CONVERSIONS
                or convertible(kind.group_kind, kind.version, feed.ref.version)
            )
        ]
        for feed in feeds
    }


def _lacking(kind: GroupKind, refused: Feed) -> str:
    """Return the resource that may not be listed, or what a kind needs."""
    resource = f"{refused.ref.plural}.{refused.ref.group}".rstrip(".")
    if refused.group_kind == kind:
        return resource
    where = f" in namespace {refused.namespace}" if refused.namespace else " in all namespaces"
    return f"{kind} (it needs {resource}{where})"


def pods_and_images(survey: Survey, m: Managed) -> tuple[tuple[PodFacts, ...], frozenset[str]]:
    """Return the pods of a workload as far as they were read, and the images of its template."""
    images = template_images(get(m.obj, "spec", "template", default={}))
    return m.pods or survey.selected(m), frozenset(filter(None, images.values()))


def _runs(pod: PodFacts, images: Mapping[str, str]) -> bool:
    """Return whether a pod is of the template with these images: an older one is replaced."""
    listed = (*pod.init_containers, *pod.containers)
    found = {c.name: c.image for c in listed if c.name in images}
    return found == images


def _overdue(obj: Obj, rollout: Rollout) -> Rollout:
    """Return a rollout as Stuck while its annotation says so."""
    if not annotated_stuck(obj, rollout):
        return rollout
    text = f"no pod has moved for longer than health.noProgressTimeout: {rollout.message}"
    return replace(rollout, state=State.STUCK, message=text)


def as_recorded(m: Managed, unit: RecordedUnit | None) -> Managed:
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


def dated(unit: RecordedUnit, live: Sequence[Managed]) -> RecordedUnit:
    """Return a unit with the reason why its record is out of date: a live object has a commit that
    the record, whose commits of objects are short, does not name."""
    newest = (unit.attempted, unit.applied, unit.causal, unit.sent)
    known = {commit.id for commit in newest if commit is not None}
    for m in live:
        news = unit.objects.get(m.key) if m.unit == unit.unit else None
        named_there = news is None or not news.commit or m.commit.startswith(news.commit)
        if not named_there and m.commit and m.commit not in known:
            text = (
                f"its record is out of date: {short_name(m.key)} has {m.commit[:7]}, which it does "
                "not name; if that stays, look for status-branch-not-written in the log of "
                "gitkruise run"
            )
            return replace(unit, outdated=unit.outdated or text)
    return unit


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
