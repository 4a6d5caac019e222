"""The one World of a running sandbox: all requests pass here, and all changes are published."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from datetime import datetime
from typing import Final

from gitkruise.errors import GatewayTimeout, InternalError, Unavailable
from gitkruise.kube.system.cel import judged
from gitkruise.kube.system.cel_budget import CelBudget
from gitkruise.sandbox.backend.encoding import Encoder
from gitkruise.sandbox.backend.group_commit import GroupCommit
from gitkruise.sandbox.backend.watch_fanout import Fanout
from gitkruise.sandbox.backend.webhook_client import WebhookCalls
from gitkruise.wire.primitives.names import GroupKind, ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest
from gitkruise.world.api.cluster import World
from gitkruise.world.store.strategies import CRD
from gitkruise.world.store.webhook_rounds import Reviews, Unanswered

# A request may take so long in a kube-apiserver; webhooks are asked in rounds, each mutating one
# in its own.
REVIEWED_WITHIN_S, ROUNDS_MAX = 34.0, 100
ADMIN: Final = "system:admin"
# Between the mark on a pod and its removal, which are two writes to kube-apiserver as well: etcd
# takes that long, and watchers can act on a pod that ends. Tasks on our event loop get their turns
# even when it is busy.
MARKED_S, MARKED_TURNS = 0.003, 20
# Seconds to gather per watch, more than a write to it takes: many are served together, and seldom
# enough for other tasks to run. A thousand watches are served five times a second.
SERVE_S, SERVE_NOW_MAX, GATHER_MAX_S = 0.0002, 50, 0.2
# Versions after which even a watch without news moves on: the World's log forgets the oldest.
SWEEP_EVERY: Final = 256
READS: Final = frozenset({"get", "list", "watch"})
DELETES: Final = frozenset({"delete", "deletecollection"})


class Cluster:
    """A World shared by HTTP handlers, in-process controllers and parts on one event loop.

    World itself is synchronous, so a request is atomic. This class adds durability: no reply and
    no watch event leaves before its change is on disk. It also wakes those that wait for changes.
    Callers that change `world` directly (parts) call `publish` afterwards.
    """

    def __init__(
        self,
        world: World,
        now: Callable[[], datetime],
        *,
        journal: GroupCommit | None = None,
        encoder: Encoder | None = None,
    ) -> None:
        self.world = world
        self.now = now
        self.encoder = encoder or Encoder()
        self.fanout = Fanout(world, self.encoder)
        self._journal = journal
        self.closed = False
        self._published = journal.appended if journal else world.version
        self._news = asyncio.Event()
        # What watches wait for: a change of a kind, or of any.
        self._rounds: dict[GroupKind | None, set[asyncio.Future[None]]] = {}
        self._swept = self._published  # when all were woken
        self._gathering = 0
        self._round_due = False
        self._announced = self._published
        self.webhooks = WebhookCalls()
        self._turn = 0

    @property
    def version(self) -> int:
        """The last resourceVersion published."""
        return self._published

    @property
    def refusal(self) -> str:
        """Reason why writes are currently refused, or ""."""
        return self._journal.refusal if self._journal else ""

    async def handle(self, request: ApiRequest, *, user: str = ADMIN) -> ApiReply:
        """Carry out one request (all verbs but watch) of `user`, or of the impersonated user.

        Raises ApiError. A reply waits until its change is durable; reads continue while writes
        are refused.
        """
        reading = request.verb in READS
        if self.refusal and not reading:
            raise Unavailable(self.refusal)
        user = request.user or user
        try:
            if not reading and self.world.has_webhooks:
                reply = await self._reviewed(request, user)
            else:
                reply = self.world.handle(request, self.now(), user=user)
            if request.verb in DELETES and (mark := self._mark()):
                await self._pause(mark)
        finally:
            self.publish()
        if self._journal and not (reading and self.refusal):
            await self._journal.durable(self._published)
        return reply

    async def _reviewed(self, request: ApiRequest, user: str) -> ApiReply:
        """Carry out a write that may need webhooks, while other requests go on.

        A concurrent change alters the review of a webhook, which is then called again. Raises
        ApiError, GatewayTimeout when that takes too long.
        """
        self._turn += 1
        now, ticket = self.now(), f"{self.world.version + 1}/{self._turn}"
        reviews = Reviews(ticket, functools.partial(judged, budget=CelBudget()))
        try:
            async with asyncio.timeout(REVIEWED_WITHIN_S):
                for _ in range(ROUNDS_MAX):
                    if self.refusal:
                        raise Unavailable(self.refusal)
                    try:
                        return self.world.handle(request, now, user=user, reviews=reviews)
                    except Unanswered as missing:
                        reviews.answers |= await self.webhooks.ask(self.world, missing.questions)
        except TimeoutError:
            why = "Timeout: request did not complete within requested timeout"
            raise GatewayTimeout(f"{why} - context deadline exceeded") from None
        raise InternalError(
            f"webhooks were asked {ROUNDS_MAX} times, and each time the object was another one"
        )

    # What the World did before this object existed is published by the first call.
    def publish(self) -> None:
        """Pass new records to the journal and wake those that wait for a change."""
        self._publish(self.world.version)

    def _publish(self, version: int) -> None:
        if version <= self._published:
            return
        if self._journal:
            records = self.world.records_since(self._published)
            self._journal.append(records[: version - self._published], version)
        self._published = version
        news, self._news = self._news, asyncio.Event()
        news.set()
        watches = self._gathering + len(self.fanout.cursors)
        if watches <= SERVE_NOW_MAX:
            self._wake_watches()
        elif not self._round_due:
            self._round_due = True
            pause_s = min(watches * SERVE_S, GATHER_MAX_S)
            asyncio.get_running_loop().call_later(pause_s, self._wake_watches)

    def _wake_watches(self) -> None:
        """Wake the watches of what changed; all of them seldom, so that none stays far behind."""
        self._round_due = False
        kinds: set[GroupKind | None] = {None}
        changes = self.world.changes_since(self._announced)
        if changes is not None:
            kinds |= {r.key.group_kind for r in changes[: self._published - self._announced]}
        self._announced = self._published
        if changes is None or CRD in kinds or self._announced - self._swept >= SWEEP_EVERY:
            self._swept = self._announced  # a watch ends with the definition of its kind
            kinds.update(self._rounds)
        for kind in kinds:
            self._wake(kind)

    def _wake(self, kind: GroupKind | None) -> None:
        for waiting in self._rounds.pop(kind, ()):
            if not waiting.done():
                waiting.set_result(None)

    async def _pause(self, mark: int) -> None:
        """Publish everything up to `mark`, and give watchers time to see it."""
        self._publish(mark)
        if self._journal:
            await self._journal.durable(mark)
        await asyncio.sleep(MARKED_S)
        for _ in range(MARKED_TURNS):
            await asyncio.sleep(0)

    def _mark(self) -> int:
        """Return the version before the first removal of an object marked just now, or 0."""
        marked: set[ObjectKey] = set()
        for record in self.world.records_since(self._published):
            if record.after is None and record.key in marked:
                return record.version - 1
            if record.after is not None and record.after["metadata"].get("deletionTimestamp"):
                marked.add(record.key)
        return 0

    async def changed(self, since: int) -> int:
        """Wait for a version newer than `since`, or the end; return the published version."""
        while self._published <= since and not self.closed:
            await self._news.wait()
        return self._published

    @property
    def announced(self) -> int:
        """The last resourceVersion that watches have been woken for."""
        return self._announced

    async def gathered(self, since: int, kind: GroupKind | None = None) -> int:
        """Wait until watches of `kind`, or of any, are woken for a version newer than `since`.

        Returns the version that is announced then. Changes in quick succession wake them once.
        """
        self._gathering += 1
        try:
            while self._announced <= since and not self.closed:
                waiting = asyncio.get_running_loop().create_future()
                round_ = self._rounds.setdefault(kind, set())
                round_.add(waiting)
                try:
                    await waiting
                finally:
                    round_.discard(waiting)
        finally:
            self._gathering -= 1
        return self._announced

    def close(self) -> None:
        """End every watch and every wait."""
        self.closed = True
        self._news.set()
        for kind in tuple(self._rounds):
            self._wake(kind)

    async def durable(self, version: int) -> None:
        """Wait until `version` is on disk, however long a full disk takes; Unavailable if never."""
        if self._journal:
            await self._journal.durable(min(version, self._published), patient=True)
