"""Apply of a unit's objects by server-side apply."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Collection, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from gitkruise.errors import (
    AlreadyExists,
    ApiError,
    ApplyConflict,
    Conflict,
    Finding,
    InternalError,
    NotLeading,
    Retry,
    StatusDetails,
)
from gitkruise.gitops.build.kruise_defaulting import ClusterDialect, dialect_of
from gitkruise.gitops.build.redacted_findings import parse_field
from gitkruise.gitops.cluster.impersonation import account_of, proven
from gitkruise.gitops.reconcile.field_adoption import adopt, of_known_tool, restate, restated
from gitkruise.gitops.reconcile.rejections import (
    cannot_change,
    immutable,
    kind_is_gone,
    not_served,
    pulled_already,
    refusal,
    replaceable,
    served_no_more,
    unanswered,
    warned,
)
from gitkruise.gitops.reconcile.version_binding import bound, collided, renewed
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock, SystemClock
from gitkruise.model.gitops.config import Unit
from gitkruise.model.gitops.document import Desired, GitCommit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import (
    ARTIFACT,
    COMMIT,
    MANAGER,
    PATH,
    Marks,
    create_only,
    marked,
)
from gitkruise.planner.sync.autoscale import sized_as
from gitkruise.planner.sync.canary_pause import as_sent, by_canary, held_back, set_by_canary
from gitkruise.wire.catalog.catalog import Catalog
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import (
    APPLY_PATCH,
    JSON,
    ApiReply,
    ApiRequest,
    apply_request,
)

_CREATED: Final = 201  # HTTP
TRIES: Final = 5  # of one request that meets writes of others
_SYSTEM: Final = SystemClock()
_SIZE, _SIZER = ".spec.replicas", "kube-controller-manager"  # which runs the autoscaler
_CONFLICTING: Final = re.compile(r'conflict with "([^"]+)"')


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """Outcome of one request: the stored object, or why it was rejected."""

    desired: Desired
    reply: Obj | None = None
    created: bool = False  # there was no such object
    finding: Finding | None = None
    server_message: str = ""  # the API server's own words of the rejection
    retry: bool = False  # the same request may go through later
    fenced: bool = False  # the lease that allows writing was lost
    unserved: bool = False  # no API serves its kind
    present: bool = False  # create-only, and it exists already
    replace: bool = False  # immutable: to be deleted and created again
    taken: tuple[str, ...] = ()  # managers that had set the object, or fields of it, before
    warnings: tuple[Finding, ...] = ()  # of the API server about what it accepted


@dataclass(frozen=True, slots=True, kw_only=True)
class ApplyFacts:
    """Facts of the cluster. `steered`: gitkruise leads Deployments to their canaries; `restored`
    are the marks of objects that may be put back."""

    gates: Gates = Gates()
    autoscaled: frozenset[ObjectKey] = frozenset()
    steered: bool = False
    restored: Mapping[ObjectKey, Marks] = field(default_factory=dict)


class _Untried(ApiError):
    """A dry run that the API server cannot carry out, and the write could."""


class Applier:
    """Applies objects of one unit at one commit. `label` is the unit's label value; `reader` has
    our own rights, where `transport` acts as the unit's account.

    Requests use a version that the cluster serves; replies are in git's version.
    """

    def __init__(
        self,
        transport: Transport,
        unit: Unit,
        label: str,
        commit: GitCommit,
        *,
        facts: ApplyFacts = ApplyFacts(),
        clock: Clock = _SYSTEM,
        reader: Transport | None = None,
    ) -> None:
        self._transport, self._unit, self._label, self._commit = transport, unit, label, commit
        self._reader = reader or transport
        self._clock, self._facts = clock, facts
        self._slots = asyncio.Semaphore(unit.spec.apply.concurrency)

    async def send(
        self,
        objects: Sequence[Desired],
        live: dict[ObjectKey, Obj],
        catalog: Catalog,
        *,
        take: Collection[ObjectKey] = (),
        dry_run: bool = False,
        overtaken: Callable[[], bool] = lambda: False,
    ) -> list[Sent]:
        """Apply `objects` with the unit's concurrency; return one Sent each, in order.

        Objects in `take` are forced, because git may take over what differs in their `live`
        version: the request holds for that version only. Objects not yet sent when `overtaken`
        becomes true are skipped: their Sent is empty. Raises ClusterFailed or ApiError when nothing
        can be sent.
        """
        await proven(self._transport)
        async with asyncio.TaskGroup() as tasks:
            sent = [
                tasks.create_task(
                    self._in_turn(
                        self._one(d, live.get(d.key), catalog, take=d.key in take, dry_run=dry_run),
                        d,
                        overtaken,
                    )
                )
                for d in objects
            ]
        return [task.result() for task in sent]

    async def _in_turn(
        self, work: Coroutine[Any, Any, Sent], d: Desired, overtaken: Callable[[], bool]
    ) -> Sent:
        async with self._slots:
            if not overtaken():
                return await work
        work.close()
        return Sent(desired=d)

    async def _one(
        self, d: Desired, live: Obj | None, catalog: Catalog, *, take: bool, dry_run: bool
    ) -> Sent:
        dialect = dialect_of(d, catalog)
        if dialect is None:
            finding = not_served(d, catalog, sent=not dry_run)
            return Sent(desired=d, finding=finding, retry=True, unserved=True)
        if live is not None and (complete := pulled_already(d, live)) is not None:
            return self._refused(d, complete, live)
        asked = sized_as(d, live) if live is not None and d.key in self._facts.autoscaled else d
        if live is not None and by_canary(asked, live, steered=self._facts.steered):
            asked, refused = await self._paused(asked, live, dialect, dry_run=dry_run)
            if refused is not None:
                return refused
        try:
            stored = await self._stored(d, live, dialect)
        except ApiError as error:
            return self._refused(d, error, live)
        request = self._request(asked, live, dialect, dry_run=dry_run, stored=stored)
        if create_only(d.obj):
            params = {k: v for k, v in request.params.items() if k != "force"}
            request = replace(request, verb="create", name="", content_type=JSON, params=params)
        if take and live is not None and self._unit.spec.apply.conflicts == "owned":
            sent = await self._take_over(d, request, live)
        else:
            sent = await self._attempt(d, request, live)
        if sent.reply is not None and live is None and request.verb == "patch" and not dry_run:
            sent = await self._taken_over(sent, request)
        return sent if sent.reply is None else replace(sent, reply=dialect.incoming(sent.reply))

    async def _stored(self, d: Desired, live: Obj | None, dialect: ClusterDialect) -> Obj | None:
        """Return the stored object, also one that no unit applied yet, if our defaults need it."""
        if live is not None or not dialect.defaulted:
            return live
        return await find_object(self._reader, dialect.kind.ref, d.key.name, d.key.namespace)

    def _request(
        self,
        d: Desired,
        live: Obj | None,
        dialect: ClusterDialect,
        *,
        dry_run: bool,
        stored: Obj | None = None,
    ) -> ApiRequest:
        return apply_request(
            dialect.kind.ref,
            dialect.outgoing(self._body(d, live), stored or live, self._facts.gates),
            MANAGER,
            namespace=d.key.namespace,
            force=self._unit.spec.apply.conflicts == "force",
            dry_run=dry_run,
        )

    async def _paused(
        self, d: Desired, live: Obj, dialect: ClusterDialect, *, dry_run: bool
    ) -> tuple[Desired, Sent | None]:
        """Return (`d` as it is sent with regard to its canary, the rejection of a trial).

        Only a server knows whether the pod template changes: it adds defaults, and removes fields
        that git no longer contains.
        """
        held = held_back(d, live)
        if dry_run:
            return held, None
        trial = await self._attempt(held, self._request(held, live, dialect, dry_run=True), live)
        if trial.reply is None:
            return held, replace(trial, desired=d)
        return as_sent(d, live, trial.reply), None

    async def _take_over(self, d: Desired, request: ApiRequest, live: Obj) -> Sent:
        """Force one request instead of asking first; fall back to asking when the object
        changed."""
        forced = replace(bound(request, live), params={**request.params, "force": "true"})
        try:
            reply = await self._transport.send(forced)
        except ApiError:
            return await self._attempt(d, request, live)
        return _accepted(d, reply)

    def _body(self, d: Desired, live: Obj | None) -> Obj:
        """Return the body; unchanged content of the unit keeps its commit and path, so a new HEAD
        causes no write, and a correction names the commit that it restores."""
        commit, path, artifact = self._commit.id, str(d.document), self._commit.artifact
        marks = Marks.of(live) if live is not None else self._facts.restored.get(d.key)
        if marks is not None and (marks.label, marks.digest) == (self._label, d.digest):
            commit, path = marks.note(COMMIT) or commit, marks.note(PATH)
            artifact = marks.note(ARTIFACT)
        return marked(
            d, unit=self._unit.id, label=self._label, commit=commit, path=path, artifact=artifact
        )

    async def _taken_over(self, sent: Sent, request: ApiRequest) -> Sent:
        """Adopt what an earlier tool applied: it keeps no field that git does not name."""
        assert sent.reply is not None
        before = _others(sent.reply)
        try:
            reply = await adopt(self._transport, request, sent.reply)
            return replace(sent, reply=reply, taken=tuple(sorted({*sent.taken, *before})))
        except ApiError as error:
            return self._refused(sent.desired, error, sent.reply)

    async def _attempt(self, d: Desired, request: ApiRequest, live: Obj | None) -> Sent:
        try:
            reply = await self._settled(request, live)
        except ApplyConflict as error:
            if d.key in self._facts.autoscaled and all(
                c.field == _SIZE for c in error.details.causes
            ):
                finding = unanswered(d, "its size changed meanwhile", live)
                return Sent(desired=d, finding=finding, retry=True)
            ends_pause = _ends_pause(error, live)
            if ends_pause or self._may_take(error):
                forced = {**request.params, "force": "true"}
                taken = await self._attempt(d, replace(request, params=forced), live)
                return (
                    taken
                    if ends_pause
                    else replace(taken, taken=tuple(sorted(_managers(error.details))))
                )
            return Sent(desired=d, finding=_conflict(d, error))
        except AlreadyExists:
            return Sent(desired=d, present=True)
        except ApiError as error:
            return self._refused(d, error, live)
        return _accepted(d, reply)

    async def _restate(self, request: ApiRequest, error: ApiError) -> bool:
        """Return whether `request` failed because of owners in a version that is gone, and may be
        sent again. Raises ApiError; _Untried for a dry run, which may not change that."""
        if not isinstance(error, InternalError) or request.content_type != APPLY_PATCH:
            return False
        stored = await find_object(self._reader, request.resource, request.name, request.namespace)
        entries = await restated(self._reader, request, stored) if stored is not None else None
        if stored is None or entries is None:
            return False
        if request.params.get("dryRun"):
            raise _Untried(error.message)
        await restate(self._transport, request, stored, entries)
        return True

    async def _settled(self, request: ApiRequest, live: Obj | None) -> ApiReply:
        """Return the reply to a request that may collide with other writes; raises the last
        rejection.

        A conflict that names no field, and AlreadyExists for a patch, mean that another client
        wrote at the same time: the request itself is still right, unless that was another commit.
        """
        fenced = request.verb == "patch" and not request.params.get("dryRun")
        if fenced and live is not None:
            request = bound(request, live)
        for attempt in range(1, TRIES + 1):
            try:
                return await self._transport.send(request)
            except ApiError as error:
                if not collided(request, error) and not await self._restate(request, error):
                    raise
                if attempt == TRIES:
                    raise Conflict(error.message, error.details) from error
            pause = pause_s(attempt, first_s=0.1, cap_s=2.0, seed=request.path)
            await self._clock.sleep(pause)
            if fenced:  # after the pause: what is read is out of date soon
                request = await renewed(self._transport, request, live)
        raise AssertionError("the last try returns or raises")

    def _refused(self, d: Desired, error: ApiError, live: Obj | None) -> Sent:
        if isinstance(error, _Untried):
            return Sent(desired=d)
        if isinstance(error, NotLeading):
            return Sent(desired=d, fenced=True)
        if kind_is_gone(error):
            return Sent(desired=d, finding=served_no_more(d), retry=True, unserved=True)
        fixed = immutable(error)
        if fixed and replaceable(d, self._unit):
            return Sent(desired=d, replace=True)
        account = account_of(self._unit)
        finding = cannot_change(d, error, live) if fixed else refusal(d, error, account, live=live)
        again = error.retry is not Retry.NEVER
        return Sent(desired=d, finding=finding, server_message=error.message, retry=again)

    def _may_take(self, error: ApplyConflict) -> bool:
        if self._unit.spec.apply.conflicts != "owned":
            return False
        owners = [(_CONFLICTING.search(c.message), c.field) for c in error.details.causes]
        return bool(owners) and all(found and _ours(found[1], field) for found, field in owners)


def _ends_pause(error: ApplyConflict, live: Obj | None) -> bool:
    """Return whether the conflict is about what a canary brought about, and alone."""
    causes = error.details.causes
    return live is not None and bool(causes) and all(set_by_canary(c.field, live) for c in causes)


def _ours(manager: str, field: str) -> bool:
    """Return whether git may take a field from `manager`; also replicas that no autoscaler sets
    now."""
    return of_known_tool(manager) or (field, manager) == (_SIZE, _SIZER)


def _others(reply: Obj) -> tuple[str, ...]:
    """Return the other managers of an object, those of its subresources left out."""
    entries = get(reply, "metadata", "managedFields", default=())
    names = {str(e.get("manager", "")) for e in entries if not e.get("subresource")}
    return tuple(sorted(names - {MANAGER, ""}))


def _accepted(d: Desired, reply: ApiReply) -> Sent:
    created = reply.status == _CREATED
    return Sent(desired=d, reply=reply.body, created=created, warnings=warned(d, reply.warnings))


def _managers(details: StatusDetails) -> set[str]:
    return {match.group(1) for c in details.causes if (match := _CONFLICTING.search(c.message))}


def _conflict(d: Desired, error: ApplyConflict) -> Finding:
    fields = ", ".join(c.field for c in error.details.causes[:5])
    owners = ", ".join(sorted(_managers(error.details))) or "another manager"
    places = tuple(
        d.document.place(parse_field(c.field.lstrip(".")), label="owned by someone else")
        for c in error.details.causes[:1]
    )
    return Finding(
        code="GK2401",
        message=f"{d.key}: {owners} owns {fields}",
        places=places,
        notes=(
            ("unchanged", f"the live {d.key}"),
            ("next", "take the field out of git, or set apply.conflicts: force on the unit"),
        ),
        object=str(d.key),
    )
