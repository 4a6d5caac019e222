"""Messages to chats and web hooks: made from records, kept in the box, signed and sent."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import sqlite3
from collections.abc import Sequence
from datetime import datetime
from typing import Final

import msgspec

from gitkruise.gitops.forges import signature
from gitkruise.gitops.telling.box import Post
from gitkruise.gitops.telling.http import Carrier, refused
from gitkruise.gitops.telling.outlet import Outlet
from gitkruise.kube.clock import Clock
from gitkruise.kube.http import USER_AGENT
from gitkruise.model.config import Notify
from gitkruise.model.record import UnitRecord
from gitkruise.model.telling import Letter, NoticeLetter
from gitkruise.planner.telling.notices import (
    AGAIN_AFTER,
    Notice,
    concerns,
    event_obj,
    news_key,
    notice_of,
    slack_obj,
)

log = logging.getLogger(__name__)
_NEWS: Final = "news/"
_WAITING_MAX: Final = 10_000  # records not looked at yet
_FORMS: Final = {"slack": slack_obj, "webhook": event_obj}


class News(msgspec.Struct, frozen=True):
    """What was told of a unit: when which news, and which came last."""

    newest: str = ""
    times: dict[str, datetime] = {}


class Notifier:
    """Hears records, and puts the messages that follow from them into one outlet."""

    def __init__(self, outlet: Outlet, rule: Notify, units: frozenset[str], clock: Clock) -> None:
        self._outlet, self._rule, self._units, self._clock = outlet, rule, units, clock
        self._waiting: dict[tuple[str, str], UnitRecord] = {}
        self._news: dict[str, News] | None = None
        self._wake = asyncio.Event()

    def offer(self, record: UnitRecord) -> None:
        """Take a record; of several about the same the newest counts. Never waits."""
        if record.unit in self._units:
            key = (record.unit, news_key(record))
            self._waiting.pop(key, None)
            self._waiting[key] = record
            if len(self._waiting) > _WAITING_MAX:
                self._waiting.pop(next(iter(self._waiting)))
            self._wake.set()

    async def run(self) -> None:
        """Put messages into the box until cancelled."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            records, self._waiting = list(self._waiting.values()), {}
            try:
                if await asyncio.to_thread(self._write, records):
                    self._outlet.posted()
            except sqlite3.Error as error:
                log.warning("%s: messages are not kept: %s", self._outlet.channel, error)
                self._news = None
                for record in records:
                    self._waiting.setdefault((record.unit, news_key(record)), record)
                await self._clock.sleep(10.0)
                self._wake.set()

    def _write(self, records: Sequence[UnitRecord]) -> int:
        if self._news is None:
            found = self._outlet.notes(_NEWS)
            self._news = {u: msgspec.json.decode(body, type=News) for u, body in found.items()}
        posts: list[Post] = []
        notes: dict[str, bytes | None] = {}
        now = self._clock.now()
        for record in records:
            before = self._news.get(record.unit, News())
            notice = notice_of(before.times, before.newest, record, now)
            if notice is None:
                continue
            kept = {k: at for k, at in before.times.items() if now - at < AGAIN_AFTER}
            self._news[record.unit] = News(notice.key, {**kept, notice.key: now})
            notes[_NEWS + record.unit] = msgspec.json.encode(self._news[record.unit])
            if concerns(self._rule, notice):
                posts.append(Post(f"notice/{notice.id}", self._letter(notice), now))
        if notes:
            self._outlet.put(posts, notes)
        return len(posts)

    def _letter(self, notice: Notice) -> NoticeLetter:
        body = msgspec.json.encode(_FORMS[self._rule.type](notice)).decode()
        return NoticeLetter(hashlib.sha256(notice.id.encode()).hexdigest()[:32], body)


class Receiver:
    """Where messages go: an address, and the key they are signed with where there is one."""

    def __init__(self, carrier: Carrier, address: str, key: str, clock: Clock) -> None:
        self._carrier, self._address, self._key, self._clock = carrier, address, key, clock

    async def send(self, letter: Letter) -> None:
        """One POST. Raises ApiError."""
        assert isinstance(letter, NoticeLetter)
        body = letter.body.encode()
        headers = {
            "Content-Type": "application/json", "User-Agent": USER_AGENT, "X-Delivery": letter.id,
        }  # fmt: skip
        if self._key:
            headers["X-Signature"] = signature("sha256=", self._key, body).decode()
        answer = await self._carrier.exchange("POST", self._address, headers, body)
        if answer.status >= 300:
            raise refused(answer, self._clock.now())
