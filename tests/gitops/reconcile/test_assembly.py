"""The assembled program keeps the order that its configuration asks for."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from gitkruise.app import controller
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, config_map, documents
from tests.gitops.status.test_health_checks import CRD, becomes, database

CONFIG: Final = (
    SOURCE
    + """\
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: app, namespace: shop}}
spec:
  sourceRef: {{name: src}}
  path: app
  dependsOn: [{{name: db}}]
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {{name: db, namespace: shop}}
spec:
  sourceRef: {{name: src}}
  path: db
  health:
    timeout: 2m
    exprs: [{{kind: Database, current: status.phase == 'Up'}}]
"""
)


@pytest.mark.slow
def test_a_unit_waits_for_another_and_for_kinds_that_it_brings(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    app = documents({**database(), "metadata": {"name": "second"}}, config_map("later", x="1"))
    stage.origin.commit({"db/main.yaml": documents(CRD, database()), "app/a.yaml": app}, "first")
    program = options(stage, tmp_path, CONFIG)

    async def script() -> None:
        async with controller(program, stage.wire, stage.clock) as running:
            records = running.reporters
            await stage.rest(20)
            assert str(records["shop/db"].record.state) == "Rolling"
            assert str(records["shop/app"].record.state) == "Waiting"
            assert records["shop/app"].record.message.startswith("waits for shop/db (Rolling, ")
            await stage.rest(120)
            assert str(records["shop/db"].record.state) == "Stuck"
            assert stage.get("ConfigMap", "later") is None
            becomes(stage, "Up")
            await stage.rest(20)
            assert str(records["shop/db"].record.state) == "Done"
            assert str(records["shop/app"].record.state) == "Done"

    stage.play(script)


@pytest.mark.slow
def test_a_start_notices_that_a_commit_without_effect_was_dropped(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("app"))
    first = stage.origin.commit({"app/a.yaml": documents(config_map("a", x="1"))}, "first")
    second = stage.origin.commit({"README.md": "words"}, "without effect")

    async def problem(seconds: float = 20) -> str:
        async with controller(program, stage.wire, stage.clock) as running:
            await stage.rest(seconds)
            record = running.reporters["shop/app"].record
            return " ".join(f.message for f in record.findings if f.code == "GK3204")

    async def script() -> None:
        assert await problem() == ""
        run_git(stage.origin.work, "reset", "--hard", "-q", first)
        run_git(stage.origin.bare, "update-ref", "refs/heads/main", first)
        stage.origin.commit({"app/a.yaml": documents(config_map("a", x="2"))}, "instead")
        assert second[:7] in await problem()
        assert stage.get("ConfigMap", "a")["data"] == {"x": "1"}
        assert second[:7] in await problem()  # and it is not forgotten by being refused
        run_git(stage.origin.bare, "update-ref", "refs/heads/main", second)
        assert await problem() == ""

    stage.play(script)
