"""Kinds of workloads that a cluster begins to serve while gitkruise drives its pods."""

from __future__ import annotations

from pathlib import Path

from gitkruise.app import controller
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import MakeStage, documents, web


def test_a_kind_that_is_served_later_is_driven_then(staged: MakeStage, tmp_path: Path) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + unit("web"))

    async def script() -> None:
        stage.origin.commit({"web/app.yaml": documents(web())}, "web")
        async with controller(program, stage.wire, stage.clock) as running:
            live, served = running.live, running.live.catalog
            live.catalog = served.without_crd("sidecarsets.apps.kruise.io")
            await stage.rest(30)
            assert not stage.wire.watched["sidecarsets"]
            live.catalog = served
            await stage.rest(30)
            assert stage.wire.watched["sidecarsets"]

    stage.play(script, stage.driver(()).run)
