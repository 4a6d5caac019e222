"""Jobs as measurements: with the unit's account, once each, and ended with their run."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.analysis.jobs import job_for, job_name
from gitkruise.model.gitops.analysis import AnalysisPhase
from gitkruise.wire.primitives.names import GroupKind
from tests.gitops.actions.test_promotion import CANARY, FIRST, canary, done
from tests.gitops.analysis.endpoint import Endpoint
from tests.gitops.analysis.measured import (
    BACK,
    both,
    counts,
    errors,
    measured,
    written_commit,
)
from tests.gitops.promoted import promotion, written
from tests.gitops.stage import MakeStage, Stage, web
from tests.worlds import SPACE

pytestmark = pytest.mark.slow


def smoke(image: str, **more: Any) -> dict[str, Any]:
    pod = {"containers": [{"name": "smoke", "image": image}]}
    spec = {"backoffLimit": 0, "ttlSecondsAfterFinished": 1, "template": {"spec": pod}}
    return {"name": "smoke", "provider": {"job": {"spec": spec}}, **more}


def jobs(stage: Stage) -> list[Any]:
    return list(stage.world.objects(GroupKind("batch", "Job"), SPACE))


def test_a_job_decides_and_runs_with_the_account_of_the_unit(staged: MakeStage) -> None:
    steps = [{"partition": "75%", "analysis": ["smoke"]}, {"partition": 0}]
    stage = staged(promotion=promotion(steps=steps, metrics=[smoke("job:v1")]))

    async def script() -> None:
        async with both(stage):
            await canary(stage, 120)
            run = measured(stage)
            assert (run.phase, done(stage)) == (AnalysisPhase.SUCCESSFUL, ("Done", 4))

    stage.play(script)
    made = [r for r in stage.wire.requests if r.verb == "create" and r.resource.plural == "jobs"]
    assert [r.namespace for r in made] == ["shop"]


def test_a_failed_job_rolls_back(staged: MakeStage) -> None:
    steps = [{"partition": "75%", "analysis": ["smoke"]}, {"partition": 0}]
    rules = promotion(steps=steps, metrics=[smoke("job:crash")])
    stage = staged(onFailure="revert-push", promotion=rules)

    async def script() -> None:
        async with both(stage):
            await canary(stage)
            await stage.rest(60)
            run = measured(stage)
            assert (run.phase, counts(run)) == (AnalysisPhase.FAILED, (0, 1, 0, 0))
            assert "failed: Job has reached the specified backoff limit" in run.message
            assert written(stage)[2:] == [BACK + written_commit(stage, FIRST)]

    stage.play(script)
    (job,) = jobs(stage)
    assert job["spec"]["ttlSecondsAfterFinished"] == 600


def test_a_job_that_runs_at_a_crash_is_found_and_runs_once(staged: MakeStage) -> None:
    steps = [{"partition": "75%", "analysis": ["smoke"]}, {"partition": 0}]
    stage = staged(promotion=promotion(steps=steps, metrics=[smoke("job:v1", initialDelay="5s")]))

    async def script() -> None:
        async with both(stage):
            await stage.push(web(), message=FIRST)
            await stage.rest()
            await stage.push(CANARY, message="canary")
            while not jobs(stage):
                await stage.rest(1)
            assert counts(measured(stage)) == (0, 0, 0, 0)
        stage.start_over()
        async with both(stage):
            await stage.rest(60)
            assert (measured(stage).phase, done(stage)) == (AnalysisPhase.SUCCESSFUL, ("Done", 4))

    stage.play(script)
    made = [r for r in stage.wire.requests if r.verb == "create" and r.resource.plural == "jobs"]
    assert len(made) == 1


def test_a_job_ends_with_the_run_that_another_metric_failed(
    staged: MakeStage, endpoint: Endpoint
) -> None:
    metrics = [smoke("job:bad"), errors(endpoint, initialDelay="20s")]
    steps = [{"partition": "75%", "analysis": ["smoke", "errors"]}, {"partition": 0}]
    stage = staged(promotion=promotion(steps=steps, metrics=metrics))
    endpoint.says({"errors": 1})

    async def script() -> None:
        async with both(stage):
            await canary(stage, 15)
            assert len(jobs(stage)) == 1
            await stage.rest(60)
            assert measured(stage).message.startswith("errors: 1 failed")
            assert jobs(stage) == []

    stage.play(script)


def test_a_job_of_someone_else_is_no_measurement(staged: MakeStage) -> None:
    steps = [{"partition": "75%", "analysis": ["smoke"]}, {"partition": 0}]
    metric = smoke("job:v1", initialDelay="30s", consecutiveErrorLimit=0)
    stage = staged(promotion=promotion(steps=steps, metrics=[metric]))

    async def script() -> None:
        async with both(stage):
            await canary(stage, 15)
            rules = stage.spec.promotion
            assert rules is not None
            (one,) = rules.metrics
            name = job_name(one, measured(stage), 0)
            stage.meddle({
                "apiVersion": "batch/v1", "kind": "Job",
                "metadata": {"name": name, "namespace": SPACE},
                "spec": job_for(stage.unit.unit, one, name)["spec"],
            })  # fmt: skip
            await stage.rest(60)
            run = measured(stage)
            assert run.phase is AnalysisPhase.ERROR
            assert f"a Job {name} exists that is not this measurement" in run.message

    stage.play(script)
