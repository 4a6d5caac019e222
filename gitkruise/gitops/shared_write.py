"""One write for everybody who waits for it at the same moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, TypeVar

T = TypeVar("T")


class SharedWrite(Generic[T]):
    """Writes entries by key, all that wait in one go, and raises what `write` raises.

    `turn` is held during a write: other writers of the same place take turns by it. A write that
    fails is repeated by each of the others that wait, because its entries are not written.
    """

    def __init__(
        self, write: Callable[[Mapping[str, T]], Awaitable[None]], turn: asyncio.Lock
    ) -> None:
        self._write, self._turn = write, turn
        self._waiting: dict[str, T] = {}

    async def of(self, key: str, value: T) -> None:
        """Return when the entry is written, by this call or another one."""
        self._waiting[key] = value
        try:
            async with self._turn:
                if key in self._waiting:  # otherwise the write for another entry was for this one
                    due = dict(self._waiting)
                    await self._write(due)
                    for written in due:
                        self._waiting.pop(written, None)
        finally:
            self._waiting.pop(key, None)
