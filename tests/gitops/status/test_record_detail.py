"""How much the status branch tells: states alone, rollouts, or pods by name as well."""

from __future__ import annotations

from datetime import timedelta

import pytest

from gitkruise.git.push.status_branch import Notes
from gitkruise.gitops.status.parser import read_yaml
from gitkruise.gitops.status.publisher import Outbox
from gitkruise.gitops.status.serializer import Detail
from tests.gitops.stage import BOT, NOTES, MakeStage, web
from tests.worlds import cloneset

pytestmark = pytest.mark.slow

ROLLOUT = "units/shop/web/rollouts/CloneSet.web.yaml"


@pytest.mark.parametrize("detail", ["unit", "workload", "pods"])
def test_the_branch_has_what_was_asked_for(staged: MakeStage, detail: Detail) -> None:
    stage = staged()
    notes = Notes(stage.repository, NOTES, identity=BOT, sleep=lambda _: None)
    outbox = Outbox(stage.branch, notes, stage.clock, coalesce=timedelta(seconds=1), detail=detail)

    async def script() -> None:
        stage.reporter._sinks.leave(stage.outbox.offer)
        stage.reporter.listen(outbox.offer)
        async with stage.running():
            await stage.push(web())
            await stage.rest()
            await stage.push(web("app:v2", partition=3), message="canary")
            await stage.rest()
            while not outbox.idle:
                await outbox.flush()

    stage.play(script)
    paths = stage.branch.paths()
    assert "units/shop/web/status.yaml" in paths
    assert (ROLLOUT in paths) is (detail != "unit")
    if detail == "unit":
        return
    document = read_yaml(stage.status_file(ROLLOUT).encode())
    assert [step["change"] for step in document["steps"]][-1].startswith("app v1 → v2")
    assert ("pods" in document) is (detail == "pods")
    if detail == "pods":
        new = [r["hash"] for r in document["revisions"] if r["role"] == "update"]
        names = {pod["name"]: (pod["revision"] in new, pod["state"]) for pod in document["pods"]}
        assert len(names) == 4
        assert sorted(names.values()) == [(False, "Ready")] * 3 + [(True, "Ready")]


def test_more_pods_than_anybody_reads_are_not_named(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(cloneset("web", 51, "app:v1"))
            await stage.rest(120)
            assert (stage.state, stage.rollout.pods) == ("Done", ())
            await stage.push(cloneset("web", 50, "app:v1"))
            await stage.rest(120)
            assert len(stage.rollout.pods) == 50

    stage.play(script)
