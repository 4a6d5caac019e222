"""Law of one order: however many clients write and watch at once, there is one order of changes;
no acknowledged write is lost, and every watch is told of every change that concerns it, once."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Final

from gitkruise.sandbox.server import SandboxOptions, SandboxServer, serve
from tests.sandbox.ledger import done, judge
from tests.sandbox.load import Door, Inside, Load, committed, outside, settled

WRITERS: Final = 64


async def drive(door: Door, start: int, watches: int, requests: int) -> Load:
    """Everybody at once; a third of the watches see one label only."""
    load = Load()
    async with asyncio.TaskGroup() as crowd:
        eyes = [
            crowd.create_task(load.watcher(door, start, ("", "", "v")[n % 3]))
            for n in range(watches)
        ]
        async with asyncio.TaskGroup() as hands:
            for seed in range(WRITERS):
                hands.create_task(load.writer(door, seed, requests // WRITERS))
        await settled(load, max(op.version for op in load.ops if done(op)))
        for eye in eyes:
            eye.cancel()
    return load


def held(load: Load, *, written: int, delivered: int) -> None:
    """Nothing is wrong, and it was as much as was promised."""
    assert judge(load.ops, load.watches, committed(load)) == []
    assert sum(map(done, load.ops)) >= written
    assert sum(len(watch.events) for watch in load.watches) >= delivered


async def run(folder: Path, watches: int, requests: int, *, http: bool) -> Load:
    options = SandboxOptions(state_dir=folder, nodes=0, kubelet=False, controllers=False)
    async with serve(options) as sandbox:
        if not http:
            return await drive(Inside(sandbox.cluster), sandbox.cluster.version, watches, requests)
        return await over_http(sandbox, watches, requests)


async def over_http(sandbox: SandboxServer, watches: int, requests: int) -> Load:
    async with outside(sandbox.url, sandbox.token, sandbox.ca) as door:
        return await drive(door, sandbox.cluster.version, watches, requests)


def test_over_https(tmp_path: Path) -> None:
    load = asyncio.run(run(tmp_path, 12, 12_000, http=True))
    held(load, written=8_000, delivered=80_000)


def test_at_the_cluster(tmp_path: Path) -> None:
    load = asyncio.run(run(tmp_path, 12, 231_000, http=False))
    held(load, written=200_000, delivered=2_000_000)
