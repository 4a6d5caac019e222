"""Pruning of one unit: when deletions must wait, who approved them, how they are carried out."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime
from typing import Final, TypeAlias

from gitkruise.errors import (
    ApiError,
    ClusterFailed,
    Conflict,
    Finding,
    Forbidden,
    HistoryMissing,
    NotFound,
    Retry,
)
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.build.builder import BuiltCommit
from gitkruise.gitops.cluster.delete_guards import held_back, held_by_others
from gitkruise.gitops.cluster.live_cache import LiveView
from gitkruise.gitops.cluster.ownership import Claims, Unsettled, brought_units
from gitkruise.gitops.reconcile.approval import approvals
from gitkruise.gitops.reconcile.interventions import (
    Journal,
    lost_with,
    report_pruned,
    report_replaced,
)
from gitkruise.gitops.source.ancestry import newest_applied
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.config import Unit, duration, resolve_reference
from gitkruise.model.gitops.document import Desired, DesiredSet, GitCommit
from gitkruise.model.gitops.sync_round import Live, PruneRules
from gitkruise.planner.sync.annotations import COMMIT, MANAGER, UNIT, annotation, untouched
from gitkruise.planner.sync.prune import lingering
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, merge_request

log = logging.getLogger(__name__)
_PAST: Final = 200  # commits of a unit that are read for what git said of an object last
Past: TypeAlias = Callable[[str], Awaitable[Sequence[Desired]]]


class UnitPruner:
    """Inventory and approvals of one unit, and the reasons to delete nothing."""

    def __init__(
        self, unit: Unit, repository: Repository, claims: Claims, wake: Callable[[], None]
    ) -> None:
        self._unit, self._repository, self._claims, self._wake = unit, repository, claims, wake
        self.rules = prune_rules(unit)
        self.unit_id, self.source = unit.id, resolve_reference(unit.spec.source_ref, unit.namespace)
        claims.join(unit.id, self.source, wake)
        self._source_problem: Finding | None = None
        self._searched = ""
        self._was_read = self._taken = False  # a commit was read, and the newest one was taken
        self._wanted: frozenset[ObjectKey] = frozenset()
        self._parked: tuple[str, frozenset[ObjectKey] | None] = ("", None)  # what a commit wants
        self.inventory: set[ObjectKey] = set()
        self.complete = False  # the cluster was searched for it
        self._returned = 0  # of the store, at that time
        self._unscanned: Mapping[GroupKind, ApiError] = {}  # kinds that this search left out
        self._misses = False  # objects that left git may be of these kinds
        self.approved = frozenset(filter(None, [unit.approved]))
        self.agreed: frozenset[str] = frozenset()  # uids of what was to go since the last change
        self._from, self._at = "", ""  # the commits taken last, and before that
        self._jump: str | None = None  # why nothing goes by this commit; None: not looked at
        self._behind, self.soon = "", False  # who had not read the commit last, and does so soon
        self._alone: dict[ObjectKey, str] = {}  # what git left alone last, and by which annotation
        self._traced: set[ObjectKey] = set()  # objects whose last words in git are known

    def source_problem(self, finding: Finding | None) -> None:
        """Set or clear the problem that keeps the source from being read."""
        self._source_problem = finding

    # The inventory --------------------------------------------------------------------------

    async def find(self, live: LiveView, label: str) -> None:
        """Complete the inventory with everything that carries `label`; once per start, once after
        the cluster was restored, and again while kinds cannot be listed.

        That includes kinds git no longer names. Raises ApiError or ClusterFailed.
        """
        failing = any(not isinstance(error, Forbidden) for error in self._unscanned.values())
        if self.complete and not (failing or self._misses):
            return
        found = set(await live.scan(label))
        self._unscanned = live.unscanned
        await live.ready(live.want({key.group_kind: "" for key in found}))
        is_news = not (self.complete and found <= self.inventory)
        self.inventory |= found
        self.complete = True
        if is_news:
            self._wake()

    def unseen(self, had: Iterable[ObjectKey]) -> Finding | None:
        """Return the finding for objects of `had` that left git, and that may still be live: their
        kind cannot be listed."""
        left = sorted(key for key in had if key not in self._wanted)
        unseen = [key for key in left if key.group_kind in self._unscanned]
        self._misses = bool(unseen)
        return _unseen(unseen, self._unscanned[unseen[0].group_kind]) if unseen else None

    def inherit(self, before: UnitPruner) -> None:
        """Take over the inventory of the same unit with other settings."""
        self.inventory |= before.inventory
        self.complete, self._unscanned = before.complete, before._unscanned
        self._misses, self._returned = before._misses, before._returned
        self._alone, self._traced = {**before._alone}, {*before._traced}

    def gone(self, wanted: Collection[ObjectKey], store: InformerCache) -> list[ObjectKey]:
        """Return the live objects of the inventory beyond `wanted`, in order.

        Objects that were deleted and live again, in a cluster that was restored, are to be found.
        """
        if store.returned != self._returned:
            self.complete, self._returned = False, store.returned
        beyond = self.inventory.difference(wanted)
        self.inventory -= {key for key in beyond if not store.seen(key)}
        return sorted(beyond & self.inventory)

    async def stood_on(self, store: InformerCache, recorded: GitCommit | None) -> str:
        """Return the newest commit taken before this start, by live objects and records."""
        known = recorded.id if recorded else ""
        return await newest_applied(self._repository, store, self.inventory, known)

    # What git says --------------------------------------------------------------------------

    def taken(self, desired: DesiredSet) -> None:
        """Record that the unit wants exactly `desired` from now on; earlier approvals end."""
        keys = frozenset(d.key for d in desired.objects)
        if keys != self._wanted:
            self._wanted, self.agreed = keys, frozenset()
        self._claims.set(self._unit.id, keys)
        self._claims.bring(self._unit.id, brought_units(keys, desired.by_key(), self.source))
        self._alone = {key: why for key, why in self._alone.items() if key not in keys}
        self._alone |= {d.key: why for d in desired.objects if (why := untouched(d.obj))}
        self._traced |= keys

    @property
    def spared(self) -> Mapping[ObjectKey, str]:
        """Return the objects that git leaves alone, or did when it named them last, with the
        annotation."""
        return self._alone

    def read(self, built: BuiltCommit) -> None:
        """Record that a commit was read, taken or not."""
        self._was_read = True
        self._taken = built.desired is not None
        if self._taken and built.commit.id != self._at:
            self._from, self._at, self._jump = self._at, built.commit.id, None
        if built.overtaken:
            self._traced.clear()  # a commit in between may have left objects alone
        if built.wanted is not None:
            keys = self._wanted | built.wanted
            self._claims.set(self._unit.id, keys)
            if not self._taken:
                self._claims.bring(self._unit.id, brought_units(keys, {}, self.source))
            self._claims.read(self._unit.id, built.commit.id)

    def park(self, built: BuiltCommit) -> None:
        """Record that a commit waits: where that is for other units alone, it releases what it
        lacks, because one of these may want it. An approval is of all that a commit takes away."""
        sure = not (built.by_cluster or built.undecided)
        self._parked = (built.commit.id, built.wanted) if sure else ("", None)
        self._claims.release(self._unit.id)

    @property
    def blind(self) -> bool:
        """Return whether the source cannot be followed."""
        return self._source_problem is not None

    @property
    def sure(self) -> bool:
        """Return whether the newest commit of a source that can be followed was taken."""
        return self._taken and not self.blind

    def unsettled(self, news: str, now: datetime, closed: str, *, soon: bool) -> Unsettled:
        """Return why the unit's git may still want what its live commit lacks, and what ends that.

        `news` is a newer commit that was not taken, and is judged `soon`; `closed` why no window is
        open. Until git has said all, other units take nothing over that has the mark of this one.
        """
        name, keeps = f"unit {self._unit.id}", None
        if self._source_problem is not None:
            code = self._source_problem.code
            why, ends = f"whose source cannot be followed ({code})", f"mend the source of {name}"
        elif self._unit.spec.suspended(now) is not None:
            why, ends = "which is suspended", f"resume {name}"
        elif news:
            why, ends = f"which has not taken commit {news[:7]}", f"see why {name} has not taken it"
            keeps = self._parked[1] if self._parked[0] == news and not closed else None
        elif not self._taken and self._was_read:
            why, ends = (
                "which rejected its newest commit",
                f"correct the commit that {name} rejected",
            )
        elif not self._taken:
            why, ends = "which has read no commit yet", f"see why {name} reads no commit"
        elif closed:
            why, ends = f"which waits for {closed}", "wait until it opens"
        else:
            return Unsettled()
        return Unsettled(why, ends, reads=soon, keeps=keeps)

    def held(self, built: BuiltCommit | None, newest: str, closed: str) -> str:
        """Return why nothing may be deleted for `built` now; `newest` is the newest offered
        commit, `closed` why no window is open.

        Only a commit that is the source's newest, read whole, by every unit that shares the source,
        shows that an object is no longer wanted: it may have moved to another unit.
        """
        self._behind, self.soon = "", False
        if closed or built is None or self.inventory <= self._wanted:
            return closed  # or there is nothing to delete
        commit = built.commit.id
        if self._source_problem is not None:
            return f"the source cannot be followed ({self._source_problem.code})"
        if newest != commit:
            return f"the newest commit {newest[:7]} was not taken"
        if self._jump:
            return self._jump
        self._behind = behind = self._claims.behind(self._unit.id, commit)
        self.soon = self._claims.reads(behind)
        if behind:
            return f"unit {behind} shares the source and has not taken this commit"
        late = self._claims.unborn(self.source, self._unit.id)
        return f"unit {late} is in git and does not run yet" if late else ""

    def awaits(self, has_news: Callable[[str], bool]) -> bool:
        """Return whether deletions go on by themselves: the unit that held them in the last round
        is about to read its newest commit, or has done so since."""
        if not self._behind:
            return False
        return has_news(self._behind) or not self._claims.behind(self._unit.id, self._at)

    # Deletions ------------------------------------------------------------------------------

    async def asked(self, commit: str, asks: frozenset[str]) -> bool:
        """Search the history of `commit` for approvals; return whether one of `asks` is among
        them."""
        if self._searched != commit:
            found = await asyncio.to_thread(approvals, self._repository, commit)
            self.approved |= found
            self._searched = commit
        return not self.approved.isdisjoint(asks)

    async def delete(
        self,
        keys: Sequence[ObjectKey],
        seen: Mapping[ObjectKey, Live],
        live: LiveView,
        transport: Transport,
        journal: Journal,
        past: Past,
    ) -> tuple[Finding, ...]:
        """Delete `keys` in the version seen; a final rejection of one does not stop the others.

        A commit of another history than the one before deletes nothing: the next one may. What
        git left alone stays, also when this process never read that: `past` reads earlier commits.
        Raises SourceFailed; ApiError when the cluster does not answer.
        """
        if self._jump is None:
            stood = {self._from} if self._from else {annotation(seen[k].obj, COMMIT) for k in keys}
            self._jump = await asyncio.to_thread(self._jumped, stood - {""}, self._at)
        if self._jump:
            self._wake()
            return ()
        if await self._traces(keys, seen, past):
            self._wake()
            return ()
        self.agreed |= {get(seen[key].obj, "metadata", "uid", default="") for key in keys}
        propagation = self._unit.spec.prune.propagation
        why = "git does not name it any more"
        return await delete_all(
            keys, seen, live, transport, propagation=propagation, why=why, journal=journal
        )

    def _jumped(self, stood: Iterable[str], commit: str) -> str:
        """Return a message if a commit of `stood` is not in the history of `commit`. Blocking.
        Raises SourceFailed.

        An artifact has no history: it is all that is wanted, whatever was live before.
        """
        if self._repository.is_imported:
            return ""
        for old in sorted(stood) if commit else ():
            try:
                kept = self._repository.is_ancestor(old, commit)
            except HistoryMissing:  # the commit exists in no remote either
                kept = False
            if not kept:
                return f"{old[:7]}, which was live before, is not in the history of {commit[:7]}"
        return ""

    async def _traces(
        self, keys: Iterable[ObjectKey], seen: Mapping[ObjectKey, Live], past: Past
    ) -> bool:
        """Return whether git left one of `keys` alone when it named it last, before this process
        began.

        The live object does not have that annotation: nothing was applied since. So the commits
        after the one that it carries are read, the newest first. One that git has only in part was
        never taken, and says nothing.
        """
        left = [key for key in keys if key not in self._traced]
        if not left or self._repository.is_imported:
            return False
        for commit in await asyncio.to_thread(self._since, left, seen):
            try:
                objects = {d.key: d.obj for d in await past(commit)}
            except HistoryMissing:
                continue
            traced = [key for key in left if key in objects]
            self._alone |= {key: why for key in traced if (why := untouched(objects[key]))}
            self._traced.update(traced)
            left = [key for key in left if key not in objects]
            if not left:
                break
        self._traced.update(left)
        return not self._alone.keys().isdisjoint(keys)

    def _since(self, keys: Iterable[ObjectKey], seen: Mapping[ObjectKey, Live]) -> list[str]:
        """Return the commits that changed the unit after the oldest one that `keys` carry, newest
        first, without the newest of all. Blocking. Raises SourceFailed.

        A history that was rewritten may lack such a commit, and says nothing about its objects.
        """
        found: list[str] = []
        for start in sorted({annotation(seen[key].obj, COMMIT) for key in keys} - {""}):
            for paths in [self._unit.spec.path], []:  # to know the paths takes whole commits
                with suppress(HistoryMissing):
                    between = self._repository.commits_between(
                        start, self._at, paths=paths, limit=_PAST
                    )
                    found = max(found, [commit.id for commit in between], key=len)
                    break
        return [commit for commit in found if commit != self._at]

    def overdue(
        self, seen: Mapping[ObjectKey, Live], now: datetime
    ) -> tuple[Finding | None, datetime | None]:
        """Return (finding for objects that do not disappear, when to check again)."""
        return lingering(seen, self._wanted, now, duration(self._unit.spec.prune.timeout))


def prune_rules(unit: Unit) -> PruneRules:
    spec = unit.spec.prune
    return PruneRules(
        enabled=spec.enabled,
        max_delete=spec.max_delete,
        max_delete_percent=spec.max_delete_percent,
        allow_empty=spec.allow_empty,
    )


async def delete(
    transport: Transport, key: ObjectKey, live: Obj, catalog: Catalog, propagation: str
) -> bool:
    """Delete the object in the version we saw, never a successor of the same name.

    Returns whether the request was accepted. Raises ApiError.
    """
    kind = catalog.stored(key.group_kind)
    if kind is None:
        raise ClusterFailed(Finding(code="GK4201", message=f"{key}: its kind is not served"))
    body = {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "propagationPolicy": propagation,
        "preconditions": {
            "uid": get(live, "metadata", "uid"),
            "resourceVersion": get(live, "metadata", "resourceVersion"),
        },
    }
    request = ApiRequest(
        verb="delete", resource=kind.ref, namespace=key.namespace, name=key.name, body=body
    )
    try:
        await transport.send(request)
    except (NotFound, Conflict):
        return False  # gone, or changed since: the next round looks again
    return True


async def delete_to_replace(
    keys: Sequence[ObjectKey],
    seen: Mapping[ObjectKey, Live],
    live: LiveView,
    transport: Transport,
    journal: Journal,
    *,
    unit: str,
) -> None:
    """Delete `keys`, which `unit` creates again: a field of theirs cannot change, or they are
    hooks. Raises ApiError."""
    for key in keys:
        if await delete(transport, key, seen[key].obj, live.catalog, "Foreground"):
            report_replaced(live.events, unit, seen[key].obj, journal)


async def delete_all(
    keys: Sequence[ObjectKey],
    seen: Mapping[ObjectKey, Live],
    live: LiveView,
    transport: Transport,
    *,
    propagation: str,
    why: str,
    journal: Journal,
) -> tuple[Finding, ...]:
    """Delete `keys` in order, in the version seen; final rejections become findings.

    Every event and log line gives `why`.

    Objects that contain others' objects stay. Raises ApiError when the cluster does not answer.
    """
    findings = []
    for key in keys:
        if why_held := await held_by_others(live.transport, live.catalog, key, seen[key].obj):
            findings.append(held_back(key, why_held))
            continue
        lost = await lost_with(live, seen[key].obj)
        try:
            if await delete(transport, key, seen[key].obj, live.catalog, propagation):
                report_pruned(live.events, seen[key].obj, lost, why, journal)
        except ApiError as error:
            if error.retry is not Retry.NEVER:
                raise
            findings.append(_refused(key, error))
    return tuple(findings)


async def release_all(
    objects: Mapping[ObjectKey, Live], live: LiveView, transport: Transport
) -> None:
    """Take the unit's mark off objects that outlive their unit, in the version seen.

    A final rejection leaves the mark, and a line in the log. Raises ApiError when the cluster does
    not answer, or when one changed meanwhile.
    """
    for key, one in objects.items():
        kind, meta = live.catalog.stored(key.group_kind), one.obj["metadata"]
        if kind is None or meta.get("deletionTimestamp"):
            continue
        version = {name: meta.get(name) for name in ("uid", "resourceVersion")}
        body = {"metadata": {**version, "labels": {UNIT: None}}}
        request = merge_request(kind.ref, key.name, body, MANAGER, namespace=key.namespace)
        try:
            await transport.send(request)
        except NotFound:
            continue
        except ApiError as error:
            if error.retry is not Retry.NEVER:
                raise
            log.warning(log_line("object-not-released", object=key, error=error.message))


def _unseen(keys: Sequence[ObjectKey], error: ApiError) -> Finding:
    more = f" and {len(keys) - 1} more" if len(keys) > 1 else ""
    next_ = "gitkruise doctor cluster"
    if isinstance(error, Forbidden):
        next_ = "let gitkruise list that kind; deploy/ lists the rights it uses"
    return Finding(
        code="GK4103",
        message=f"{keys[0]}{more} left git and may still be live: cannot list"
        f" {keys[0].kind}: {error.message}",
        notes=(
            ("unchanged", "all live objects of that kind; the list is retried"),
            ("next", next_),
        ),
        object=str(keys[0]),
    )


def _refused(key: ObjectKey, error: ApiError) -> Finding:
    return Finding(
        code="GK2307",
        message=f"{key} left git and cannot be deleted: {error.message}",
        notes=(
            ("unchanged", f"the live {key}"),
            (
                "next",
                "let gitkruise delete it; deploy/ lists the rights it uses. It is tried again",
            ),
        ),
        object=str(key),
    )
