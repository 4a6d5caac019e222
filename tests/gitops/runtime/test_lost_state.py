"""A controller whose state directory is gone: git and the cluster hold everything it needs."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from gitkruise.app import controller
from gitkruise.model.workloads.pod import POD
from tests.git.repos import run_git
from tests.gitops.programs import SOURCE, options, unit
from tests.gitops.stage import STATUS, MakeStage, Stage, documents, web

pytestmark = pytest.mark.slow
LEASES = ("update gitkruise-", "patch gitkruise-", "create ")
SINK = """---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: outcome, namespace: shop}}
spec: {{git: {{sourceRef: {{name: src}}, coalesce: 1s}}}}
"""


def written(stage: Stage) -> list[str]:
    """Records on the status branch, oldest first."""
    return run_git(stage.origin.bare, "rev-list", "--reverse", STATUS).split()


def changed(stage: Stage) -> list[str]:
    """Writes of the controller apart from its leases, which every process renews."""
    return [write for write in stage.wire.writes() if not write.startswith(LEASES)]


def test_nothing_is_restarted_or_recorded_twice_without_the_state_directory(
    staged: MakeStage, tmp_path: Path
) -> None:
    stage = staged()
    program = options(stage, tmp_path, SOURCE + SINK + unit("web", ", sinkRef: {{name: outcome}}"))

    async def run(image: str = "") -> None:
        async with controller(program, stage.wire, stage.clock) as running:
            if image:
                stage.origin.commit({"web/app.yaml": documents(web(image))}, image)
            await stage.rest(120)
            (reporter,) = running.reporters.values()
            assert reporter.record.state == "Done"
            for outbox in running.outboxes.values():
                await outbox.flush()

    async def script() -> None:
        await run("app:v1")
        await run("app:v2")
        records, pods, sent = written(stage), stage.world.objects(POD), len(changed(stage))
        assert len(pods) == 4
        assert program.state_dir.is_dir()
        shutil.rmtree(program.state_dir)
        await run()
        assert written(stage) == records
        assert stage.world.objects(POD) == pods
        assert changed(stage)[sent:] == [], "nothing was applied again"
        shutil.rmtree(program.state_dir)
        await run("app:v3")
        assert written(stage)[: len(records)] == records
        assert len(written(stage)) > len(records), "new commits are recorded"

    stage.play(script)
