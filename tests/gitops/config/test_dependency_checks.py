"""What a unit waits for: `ready` expressions are evaluated in a worker, one time for each state."""

from __future__ import annotations

import asyncio
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gitkruise.gitops.config.dependencies import Gate, UnitStates
from gitkruise.gitops.config.sync_windows import Windows
from gitkruise.gitops.workers.pool import WorkerPool
from gitkruise.kube.system.clock import SystemClock
from gitkruise.model.gitops.config import DependsOn, Reference, Unit, UnitSpec
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State

pytestmark = pytest.mark.slow

LIST = f"[{','.join('1' * 150)}]"
ENDLESS = f"{LIST}.all(a, {LIST}.all(b, {LIST}.all(c, {LIST}.all(d, a + b + c + d > 0))))"


def standings(state: State) -> UnitStates:
    found = UnitStates()
    since = datetime(2026, 1, 1, tzinfo=UTC)
    found.receive(
        UnitRecord(
            unit="shop/db", cluster="test", source="main", state=state, message="2/2", since=since
        )
    )
    return found


def gate(pool: WorkerPool, ready: str, state: State = State.DONE) -> Gate:
    needed = DependsOn(name="db", ready=ready)
    unit = Unit("shop", "web", UnitSpec(source_ref=Reference(name="src"), depends_on=(needed,)))
    clock = SystemClock()
    return Gate(unit, standings(state), Windows((), clock), pool, clock)


def test_an_expression_without_end_takes_nothing_from_the_event_loop(tmp_path: Path) -> None:
    pool = WorkerPool(tmp_path, 1)
    try:

        async def script() -> tuple[list[str], float]:
            one = gate(pool, ENDLESS)
            before = time.thread_time()
            reasons = [await one.blocked_by() for _ in range(5)]
            return reasons, time.thread_time() - before

        reasons, used = asyncio.run(script())
        why = "ready: operation cancelled: actual cost limit exceeded"
        assert reasons == [f"shop/db ({why})"] * 5
        assert used < 0.25  # in this thread one evaluation takes 0.5 s
    finally:
        pool.close()


@pytest.mark.parametrize(
    ("ready", "state", "waits"),
    [
        ("", State.DONE, ""),
        ("", State.ROLLING, "shop/db (Rolling, 2/2)"),
        ("state == 'Rolling'", State.ROLLING, ""),
        ("state == 'Rolling'", State.DONE, "shop/db (Done, 2/2)"),
        ("phase + 1 == 2", State.DONE, "shop/db (ready: "),
    ],
)
def test_an_expression_decides_about_a_unit(
    tmp_path: Path, ready: str, state: State, waits: str
) -> None:
    pool = WorkerPool(tmp_path, 1)
    try:
        answer = asyncio.run(gate(pool, ready, state).blocked_by())
        assert answer.startswith(waits)
        assert bool(answer) == bool(waits)
    finally:
        pool.close()
