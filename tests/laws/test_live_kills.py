"""Law of kills: a server is killed again and again while many write and watch over HTTPS; what it
acknowledged or told is there when it is back, versions go on, and nothing is done twice."""

from __future__ import annotations

import asyncio
import os
import signal
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gitkruise.wire.primitives.names import Obj
from tests.sandbox.disk import Draw
from tests.sandbox.ledger import Change, done, order
from tests.sandbox.load import Load, change_of, outside
from tests.sandbox.nursery import Born, Nursery, nursery

KILLS: Final = 100
WRITERS: Final = 8
EVER: Final = 1_000_000


@dataclass(slots=True)
class Witness:
    """What must be true of the store after the next kill."""

    load: Load = field(default_factory=Load)
    known: dict[str, Change] = field(default_factory=dict)  # the newest anybody heard of a key
    given: dict[int, str] = field(default_factory=dict)  # version: the key and token it was given
    newest: int = 0  # the highest version that anybody heard of
    judged: int = 0  # of the load's requests
    unsure: set[str] = field(default_factory=set)  # writes of the last life without an answer
    deleted: set[str] = field(default_factory=set)  # keys that it may have deleted

    def receive(self, change: Change) -> None:
        """An event, an answer or a listed object: nobody may tell what is not on disk."""
        self.newest = max(self.newest, change.version)
        if change.type == "BOOKMARK":
            return
        what = f"{change.key} {change.type == 'DELETED'} {change.token}"
        known = self.given.setdefault(change.version, what)
        assert known == what, f"{change.version} was given to {known} and {what}"
        if change.key not in self.known or self.known[change.key].version < change.version:
            self.known[change.key] = change

    def account(self) -> None:
        """Take in what the clients of the killed server were told."""
        ops = self.load.ops[self.judged :]
        self.judged = len(self.load.ops)
        assert [text for text in order(ops) if not text.startswith("STORE-2 a list")] == []
        for watch in self.load.watches:
            for event in watch.events:
                self.receive(event)
        self.load.watched.clear()
        for op in ops:
            if done(op) and op.version and op.verb != "delete":
                self.receive(Change("MODIFIED", op.key, op.version, op.token))
        self.unsure = {op.token for op in ops if op.status == 0}
        self.deleted = {op.key for op in ops if op.verb == "delete" and op.status in (0, 200)}

    def compare(self, found: Obj) -> None:
        """STORE-1, STORE-4, STORE-5, STORE-6: the list of the server that is back."""
        version = int(found["metadata"]["resourceVersion"])
        changed = max(self.given, default=-1)
        assert version > changed, f"{version} is not after {changed}, which was a change"
        assert version >= self.newest, f"{version} is before {self.newest}"
        there = {one.key: one for one in (change_of("ADDED", item) for item in found["items"])}
        for key, change in list(self.known.items()):
            now = there.get(key)
            if now is None:
                gone = change.type == "DELETED" or key in self.deleted
                assert gone, f"{key} at {change.version} is lost"
                del self.known[key]
            elif now.version < change.version:
                raise AssertionError(f"{key} is back at {now.version}, was {change.version}")
            elif now.version > change.version:
                assert now.token in self.unsure, f"{now.token} of {key} was never asked for"
        for key, now in there.items():
            self.receive(now)
            self.load.known[key] = now.version
        self.newest = max(self.newest, version)


async def live(server: Born, witness: Witness, draw: Draw) -> None:
    """One life: the state is compared, then everybody works until the server is killed."""
    load = witness.load
    load.news = asyncio.Event()
    async with outside(server.url, server.token, server.ca) as door:
        status, found = await door.ask("list", "", None)
        assert status == 200
        witness.compare(found)
        start = int(found["metadata"]["resourceVersion"])
        async with asyncio.TaskGroup() as crowd:
            for _ in range(2):
                crowd.create_task(load.watcher(door, start, ""))
            for _ in range(WRITERS):
                crowd.create_task(load.writer(door, draw.below(2**32), EVER))
            crowd.create_task(kill(server, load, len(load.ops) + draw.below(120)))


async def kill(server: Born, load: Load, after: int) -> None:
    """kill -9, once so many requests were answered."""
    while len(load.ops) < after:
        load.news.clear()
        await load.news.wait()
    os.kill(server.pid, signal.SIGKILL)


def test_killed_again_and_again(tmp_path: Path) -> None:
    witness, draw = Witness(), Draw(8)
    with nursery(tmp_path) as servers:
        for _ in range(KILLS):
            asyncio.run(live(servers.bear(), witness, draw))
            assert servers.buried() == signal.SIGKILL
            witness.account()
        last(servers, witness)
    assert sum(map(done, witness.load.ops)) >= 20 * KILLS


def last(servers: Nursery, witness: Witness) -> None:
    """The state after the last kill."""
    server = servers.bear()

    async def look() -> None:
        async with outside(server.url, server.token, server.ca) as door:
            witness.compare((await door.ask("list", "", None))[1])

    asyncio.run(look())
    os.kill(server.pid, signal.SIGKILL)
    servers.buried()
