"""Writes that wait at the same moment are one; a write that fails is nobody's."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

import pytest

from gitkruise.gitops.shared_write import SharedWrite


def test_those_that_wait_share_a_write() -> None:
    async def run() -> None:
        written: list[dict[str, int]] = []
        turn, busy = asyncio.Lock(), asyncio.Event()

        async def write(due: Mapping[str, int]) -> None:
            written.append(dict(due))
            await busy.wait()

        shared = SharedWrite(write, turn)
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(shared.of("a", 1))
            await asyncio.sleep(0)
            for key, value in (("b", 2), ("c", 3)):
                tasks.create_task(shared.of(key, value))
            await asyncio.sleep(0)
            assert turn.locked()
            busy.set()
        assert written == [{"a": 1}, {"b": 2, "c": 3}]

    asyncio.run(run())


def test_each_repeats_a_write_that_failed() -> None:
    async def run() -> None:
        failures = [OSError("full")]
        written: list[dict[str, int]] = []

        async def write(due: Mapping[str, int]) -> None:
            await asyncio.sleep(0)
            if failures:
                raise failures.pop()
            written.append(dict(due))

        shared = SharedWrite(write, asyncio.Lock())

        async def first() -> None:
            with pytest.raises(OSError, match="full"):
                await shared.of("a", 1)

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(first())
            tasks.create_task(shared.of("b", 2))
        assert written == [{"b": 2}]

    asyncio.run(run())
