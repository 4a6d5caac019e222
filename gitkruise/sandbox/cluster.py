"""The one World of a running sandbox: every caller goes through here, and every change is told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import datetime
from typing import Final

from gitkruise.errors import GatewayTimeout, InternalError, Unavailable
from gitkruise.kube.expressions import judged
from gitkruise.sandbox.encoding import Encoder
from gitkruise.sandbox.fanout import Fanout
from gitkruise.sandbox.journal import Journal
from gitkruise.sandbox.webhook_calls import WebhookCalls
from gitkruise.wire.names import ObjectKey
from gitkruise.wire.request import ApiReply, ApiRequest
from gitkruise.world.cluster import World
from gitkruise.world.reviews import Reviews, Unanswered

# A request may take so long in a kube-apiserver; webhooks are asked in rounds, each mutating one
# in its own.
REVIEWED_WITHIN_S, ROUNDS_MAX = 34.0, 100
ADMIN: Final = "system:admin"
# Between the mark on a pod and its removal, which are two writes to kube-apiserver as well: etcd
# takes that long, and whoever watches gets to act on a pod that ends. Those who share our event
# loop get their turns however busy it is.
MARKED_S, MARKED_TURNS = 0.003, 20
# Seconds to gather for each watch, more than telling it takes: many are told together, and seldom
# enough for others to get their turns. A thousand of them, five times a second.
TOLD_S, TOLD_AT_ONCE, GATHER_MAX_S = 0.0002, 50, 0.2
READS: Final = frozenset({"get", "list", "watch"})
DELETES: Final = frozenset({"delete", "deletecollection"})


class Cluster:
    """A World shared by HTTP handlers, in-process controllers and parts on one event loop.

    World itself is synchronous, so a request is atomic; this class adds that nothing leaves
    (a reply, an event of a watch) before the change it tells of is durable, and wakes whoever
    waits for changes. Callers that change `world` directly (parts) call `publish` afterwards.
    """

    def __init__(
        self,
        world: World,
        now: Callable[[], datetime],
        *,
        journal: Journal | None = None,
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
        self._round = asyncio.Event()
        self._gathering = 0
        self._round_due = False
        self._told = self._published
        self.webhooks = WebhookCalls()
        self._turn = 0

    @property
    def version(self) -> int:
        """The last resourceVersion published."""
        return self._published

    @property
    def refusal(self) -> str:
        """Why writes are refused at the moment, or ""."""
        return self._journal.refusal if self._journal else ""

    async def handle(self, request: ApiRequest, *, user: str = ADMIN) -> ApiReply:
        """Carry out one request (all verbs but watch) of `user`, or of whom it acts for.

        Raises ApiError. A reply waits until what it tells of is durable; reads go on while writes
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
        """Carry out a write that webhooks may have to be asked about; others go on meanwhile.

        Whatever changes meanwhile is seen: what a webhook is told then differs, and it is asked
        again. Raises ApiError, GatewayTimeout when that takes too long.
        """
        self._turn += 1
        now, ticket = self.now(), f"{self.world.version + 1}/{self._turn}"
        reviews = Reviews(ticket, judged)
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
        """Hand new records to the journal and wake everybody who waits for a change."""
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
        watches = self._gathering + len(self.fanout.seats)
        if watches <= TOLD_AT_ONCE:
            self._tell()
        elif not self._round_due:
            self._round_due = True
            pause_s = min(watches * TOLD_S, GATHER_MAX_S)
            asyncio.get_running_loop().call_later(pause_s, self._tell)

    def _tell(self) -> None:
        """Wake the watches."""
        self._round_due = False
        self._told = self._published
        told, self._round = self._round, asyncio.Event()
        told.set()

    async def _pause(self, mark: int) -> None:
        """Tell what happened up to `mark`, and let it be seen."""
        self._publish(mark)
        if self._journal:
            await self._journal.durable(mark)
        await asyncio.sleep(MARKED_S)
        for _ in range(MARKED_TURNS):
            await asyncio.sleep(0)

    def _mark(self) -> int:
        """The version of the first news before something goes that was only now marked; or 0."""
        marked: set[ObjectKey] = set()
        for record in self.world.records_since(self._published):
            if record.after is None and record.key in marked:
                return record.version - 1
            if record.after is not None and record.after["metadata"].get("deletionTimestamp"):
                marked.add(record.key)
        return 0

    async def changed(self, since: int) -> int:
        """Wait until something newer than `since` was published (or the end); its version."""
        while self._published <= since and not self.closed:
            await self._news.wait()
        return self._published

    @property
    def told(self) -> int:
        """The last resourceVersion that watches get to see by now."""
        return self._told

    async def gathered(self, since: int) -> int:
        """Wait until something newer than `since` is told; what comes close together is at once.

        Returns the version told.
        """
        self._gathering += 1
        try:
            while self._told <= since and not self.closed:
                await self._round.wait()
        finally:
            self._gathering -= 1
        return self._told

    def close(self) -> None:
        """End every watch; nothing is waited for any more."""
        self.closed = True
        self._news.set()
        self._round.set()

    async def durable(self, version: int) -> None:
        """Wait until `version` is on disk, however long a full disk takes; Unavailable if never."""
        if self._journal:
            await self._journal.durable(min(version, self._published), patient=True)
