"""Expressions of Unit objects, which many users may write, are evaluated in a worker process."""

from __future__ import annotations

import asyncio
from contextlib import closing
from pathlib import Path

import msgspec
import pytest

from gitkruise.gitops.resources.expression_checks import ExpressionChecks
from gitkruise.gitops.workers.pool import InProcess, WorkerPool
from gitkruise.model.gitops.config import (
    DependsOn,
    HealthExpr,
    HealthSpec,
    Reference,
    Unit,
    UnitSpec,
)
from tests.gitops.objects import House, play
from tests.gitops.stage import config_map

LIST = "[1, 2, 3, 4, 5, 6, 7, 8, 9, 10]"
SLOW = f"{LIST}.all(a, {LIST}.all(b, {LIST}.all(c, {LIST}.all(d, a + b + c + d > 0))))"


def unit(*texts: str, ready: str = "") -> Unit:
    exprs = tuple(HealthExpr(kind="A", current=text) for text in texts)
    spec = UnitSpec(
        source_ref=Reference(name="src"), path="app", health=HealthSpec(exprs=exprs),
        depends_on=(DependsOn(name="other", ready=ready),),
    )  # fmt: skip
    return Unit("shop", "web", spec)


ROWS: list[tuple[str, Unit, str, str]] = [
    ("all are fine", unit("status.up", "true", ready="updated > 0"), "", ""),
    ("none", unit(), "", ""),
    ("a later one has no syntax", unit("true", "true", "status. =="), "exprs.2.current", "Syntax"),
    ("no answer", unit("true", "'ok'"), "exprs.1.current", "not true or false"),
    ("a dependency", unit("true", ready="phase"), "dependsOn.0.ready", "not true or false"),
]


@pytest.mark.parametrize(("name", "one", "path", "why"), ROWS, ids=[row[0] for row in ROWS])
def test_the_first_invalid_expression_is_found(name: str, one: Unit, path: str, why: str) -> None:
    del name
    found = asyncio.run(ExpressionChecks(InProcess()).findings([one])).get("shop/web")
    assert (found.code if found else "") == ("GK7031" if path else "")
    assert path in (found.message if found else "")
    assert why in (found.message if found else "")


@pytest.mark.slow
def test_everything_goes_on_while_costly_expressions_are_evaluated(tmp_path: Path) -> None:
    order: list[str] = []
    costly = unit(*(f"{SLOW} && {number} > 0" for number in range(1, 400)))
    fine = msgspec.structs.replace(unit("true"), name="fine")

    async def check(pool: WorkerPool) -> None:
        checks = ExpressionChecks(pool)
        found = await checks.findings([costly, fine])
        order.append("checked")
        assert "beyond a limit: CPU time > 1 s" in found["shop/web"].message
        assert found.keys() == {"shop/web"}
        pids = pool.pids
        assert await checks.findings([costly, fine]) == found
        assert pool.pids == pids  # nothing was evaluated again

    async def turns() -> None:
        for _ in range(100):
            await asyncio.sleep(0)
        order.append("turned")

    async def script() -> None:
        with closing(WorkerPool(tmp_path, 1)) as pool:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(check(pool))
                tasks.create_task(turns())

    asyncio.run(script())
    assert order == ["turned", "checked"]


def test_an_object_with_an_invalid_expression_says_so(hands: House) -> None:
    hands.push(web=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("web", health={"exprs": [{"kind": "A", "current": "status. =="}]})
        await hands.rest()
        assert hands.has("a") == [False]
        assert hands.says("Unit", "web") == ("False", "InvalidSpec")
        assert "spec.health.exprs.0.current" in hands.message("Unit", "web")

    play(hands, script)
