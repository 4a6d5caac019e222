"""Messages to chats and web hooks: derived from records, stored in the outbox, and sent."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final

import msgspec

from gitkruise.errors import Crashed
from gitkruise.gitops.containment import UNREPORTED, Containment
from gitkruise.gitops.forges.http import ForgeTransport, refused
from gitkruise.gitops.forges.webhook_payloads import signature
from gitkruise.gitops.notify.channel import Channel
from gitkruise.gitops.notify.outbox import OutboxEntry
from gitkruise.kube.client.http import USER_AGENT
from gitkruise.kube.client.limits import pause_s
from gitkruise.kube.system.clock import Clock, wait_for
from gitkruise.model.gitops.config import Notify
from gitkruise.model.gitops.notifications import MessageItem, OutboxItem
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.planner.notify.message_formats import message_body
from gitkruise.planner.notify.messages import (
    AGAIN_AFTER,
    Notice,
    concerns,
    news_key,
    notice_of,
    repeats_after,
)
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.times import RetryPause

log = logging.getLogger(__name__)
_SENT: Final = "news/"
_AGAIN_S: Final = 10.0
_WAITING_MAX: Final = 10_000  # records not looked at yet


class SentMessages(msgspec.Struct, frozen=True):
    """Messages that were sent about a unit: the newest, the time of each, and whether they left a
    failure open."""

    newest: str = ""
    times: dict[str, datetime] = {}
    failing: bool = False


class Notifier:
    """Write the messages that follow from records to one channel."""

    def __init__(
        self,
        channel: Channel,
        rule: Notify,
        units: frozenset[str],
        clock: Clock,
        *,
        containment: Containment = UNREPORTED,
    ) -> None:
        self._channel, self._rule, self._units, self._clock = channel, rule, units, clock
        self._waiting: dict[tuple[str, str], UnitRecord] = {}
        self._news: dict[str, SentMessages] | None = None
        self._held: dict[str, tuple[RetryPause, UnitRecord]] = {}  # sent shortly ago, by unit
        self._wake = asyncio.Event()
        self._containment, self._failures = containment, 0

    def offer(self, record: UnitRecord) -> None:
        """Take a record; the newest of several with the same key counts. Never waits."""
        if record.unit in self._units:
            key = (record.unit, news_key(record))
            self._waiting.pop(key, None)
            self._waiting[key] = record
            if len(self._waiting) > _WAITING_MAX:
                self._waiting.pop(next(iter(self._waiting)))
            self._wake.set()

    async def run(self) -> None:
        """Write messages until cancelled."""
        while True:
            await self._change_or_time()
            self._wake.clear()
            now = self._clock.now()
            due = [record for pause, record in self._held.values() if not pause.rests(now)]
            records, self._waiting = [*due, *self._waiting.values()], {}
            try:
                with self._containment.of(f"Sink {self._channel.name}", sqlite3.Error):
                    posted = await asyncio.to_thread(self._write, records)
                if posted:
                    self._channel.posted()
                self._failures = 0
            except (sqlite3.Error, Crashed) as error:
                log.warning(
                    log_line("messages-not-stored", channel=self._channel.name, error=error)
                )
                self._news = None
                for record in records:
                    self._waiting.setdefault((record.unit, news_key(record)), record)
                self._failures += 1
                channel = self._channel.name
                pause = pause_s(self._failures, first_s=_AGAIN_S, cap_s=300.0, seed=channel)
                await self._clock.sleep(pause)
                self._wake.set()

    async def _change_or_time(self) -> None:
        """Wait for a record, or until a state that a unit came back to may be sent once more."""
        due = min((pause.until for pause, _ in self._held.values()), default=None)
        if due is None:
            await self._wake.wait()
        else:
            await wait_for(self._wake, self._clock, max(due - self._clock.now(), timedelta()))

    def _write(self, records: Sequence[UnitRecord]) -> int:
        if self._news is None:
            found = self._channel.notes(_SENT)
            self._news = {
                u: msgspec.json.decode(body, type=SentMessages) for u, body in found.items()
            }
        entries: list[OutboxEntry] = []
        notes: dict[str, bytes | None] = {}
        now = self._clock.now()
        for record in records:
            before = self._news.get(record.unit, SentMessages())
            self._held.pop(record.unit, None)
            notice = notice_of(before.times, before.newest, record, now, failing=before.failing)
            if notice is None:
                if (again := repeats_after(before.times, before.newest, record)) is not None:
                    self._held[record.unit] = (again, record)
                continue
            pauses = {k: RetryPause(at, at + AGAIN_AFTER) for k, at in before.times.items()}
            kept = {k: pause.since for k, pause in pauses.items() if pause.rests(now)}
            times = {**kept, notice.key: now}
            self._news[record.unit] = SentMessages(notice.key, times, notice.failing)
            notes[_SENT + record.unit] = msgspec.json.encode(self._news[record.unit])
            if concerns(self._rule, notice):
                entries.append(OutboxEntry(f"notice/{notice.id}", self._item(notice), now))
        if notes:
            self._channel.put(entries, notes)
        return len(entries)

    def _item(self, notice: Notice) -> MessageItem:
        body = message_body(self._rule, notice)
        return MessageItem(hashlib.sha256(notice.id.encode()).hexdigest()[:32], body)


class WebhookTarget:
    """Address of messages, and the key that signs them, or ""."""

    def __init__(self, transport: ForgeTransport, address: str, key: str, clock: Clock) -> None:
        self._transport, self._address, self._key, self._clock = transport, address, key, clock

    async def send(self, item: OutboxItem) -> None:
        """One POST. Raises ApiError."""
        assert isinstance(item, MessageItem)
        body = item.body.encode()
        headers = {
            "Content-Type": "application/json", "User-Agent": USER_AGENT, "X-Delivery": item.id,
        }  # fmt: skip
        if self._key:
            headers["X-Signature"] = signature("sha256=", self._key, body).decode()
        answer = await self._transport.exchange("POST", self._address, headers, body)
        if answer.status >= 300:
            raise refused(answer, self._clock.now())
