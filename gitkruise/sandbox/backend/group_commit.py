"""Group commit: changes of the World gather while the disk is busy, and are written together."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from typing import Final

from gitkruise.errors import Unavailable
from gitkruise.sandbox.backend.encoding import Encoder
from gitkruise.sandbox.backend.sqlite import CommitBatch, SqliteStore, StoreFailed, StoreFull
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.world.api.cluster import CommittedChange

RETRY_FULL_S: Final = 1.0
FULL: Final = (
    "the disk of the sandbox's store is full: {}; the change may appear once there is room"
)
STOPPED: Final = "the sandbox's store failed: {}; nothing is accepted until it is started again"


class GroupCommit:
    """Writes records to the store in one thread; everything else waits for it.

    `version` is what the store holds. A full disk refuses writes until a retry succeeds; a failed
    commit refuses them for good.
    """

    def __init__(self, store: SqliteStore, encoder: Encoder, version: int) -> None:
        self._store = store
        self._encoder = encoder
        self._pending: dict[ObjectKey, Obj | None] = {}
        self._pending_version = version
        self._durable = version
        self._stopped = False
        self._work = asyncio.Event()
        self._closing = asyncio.Event()
        self._settled = asyncio.Event()
        self.refusal = ""

    @property
    def appended(self) -> int:
        """The version of the newest queued record."""
        return self._pending_version

    def append(self, records: Sequence[CommittedChange], version: int) -> None:
        """Queue `records`; `version` is the World's version after them."""
        for record in records:
            self._pending[record.key] = record.after
        self._pending_version = version
        self._work.set()

    async def durable(self, version: int, *, patient: bool = False) -> None:
        """Return once everything up to `version` is on disk.

        Raises Unavailable when writes are refused; a patient caller waits while the disk is full.
        """
        while self._durable < version:
            if self._stopped or (self.refusal and not patient):
                raise Unavailable(self.refusal)
            await self._settled.wait()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Commit in the background; records appended before the exit are committed first."""
        with ThreadPoolExecutor(max_workers=1, thread_name_prefix="store") as writer:
            async with asyncio.TaskGroup() as group:
                group.create_task(self._run(writer))
                try:
                    yield
                finally:
                    self._closing.set()
                    self._work.set()

    async def _run(self, writer: ThreadPoolExecutor) -> None:
        """Commit until closed or failed; on a full disk retry every RETRY_FULL_S."""
        while not self._stopped:
            await self._work.wait()
            self._work.clear()
            while self._pending and not self._stopped:
                await self._commit(writer)
                if self.refusal and await self._closes_within(RETRY_FULL_S):
                    return
            if self._closing.is_set():
                return

    async def _closes_within(self, seconds: float) -> bool:
        try:
            async with asyncio.timeout(seconds):
                await self._closing.wait()
        except TimeoutError:
            return False
        return True

    async def _commit(self, writer: ThreadPoolExecutor) -> None:
        taken, self._pending = self._pending, {}
        version = self._pending_version
        changes = {
            key: None if after is None else self._encoder.object(after)
            for key, after in taken.items()
        }
        try:
            await asyncio.get_running_loop().run_in_executor(
                writer, self._store.write, CommitBatch(changes, version)
            )
        except StoreFull as error:
            self._pending = taken | self._pending
            self.refusal = FULL.format(error)
        except StoreFailed as error:
            self._stopped = True
            self.refusal = STOPPED.format(error)
        else:
            self._durable = version
            self.refusal = ""
        settled, self._settled = self._settled, asyncio.Event()
        settled.set()
