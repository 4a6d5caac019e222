"""The canonical flow of a Deployment: canary, promotion, a bad version and its rollback."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitkruise.gitops.actions.actions import ActionArgs, ActionVerb
from gitkruise.gitops.actions.proposals import ActionRequest, Proposer
from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.wire.primitives.names import ObjectKey
from tests.git.repos import run_git
from tests.gitops.notify.harness import CHECK, ForgeHarness
from tests.gitops.promoted import configured
from tests.gitops.stage import BOT, MakeStage, Stage
from tests.worlds import SPACE, deployment

pytestmark = pytest.mark.slow
WEB = ObjectKey("apps", "Deployment", SPACE, "web")


def web(image: str, canary: str) -> Any:
    rolling = {"maxSurge": 2, "maxUnavailable": 1}
    strategy = {"type": "RollingUpdate", "rollingUpdate": rolling}
    obj: Any = deployment(image=image, replicas=10, strategy=strategy)
    obj["metadata"] = {"name": "web", "annotations": {"gitkruise.io/canary": canary}}
    return obj


async def act(stage: Stage, verb: ActionVerb, updated: str = "") -> str:
    """Do what `gitkruise VERB --commit` does; return the commit."""
    proposer = Proposer(
        repository=stage.repository, branch="main", config=configured(stage), live=stage.live,
        gates=Gates(), clock=stage.clock, identity=BOT,
    )  # fmt: skip
    request = ActionRequest(verb=verb, key=WEB, args=ActionArgs(updated=updated))
    proposal = await proposer.propose(request, stage.unit.live_commit)
    assert proposal is not None
    proposer.push(proposal)
    run_git(stage.origin.work, "pull", "--quiet", "--ff-only", "origin", "main")
    await stage.follower.check()
    await stage.rest()
    return proposal.commit


def pods(stage: Stage) -> dict[str, int]:
    found = stage.images()
    return {image: found.count(image) for image in sorted(set(found))}


def seen(stage: Stage) -> tuple[str, int, int]:
    rollout: Rollout = stage.rollout
    return str(rollout.state), rollout.updated, rollout.total


async def canaried(harness: ForgeHarness) -> str:
    """A pull request of a canary, planned and merged."""
    stage, head = harness.stage, harness.branch(1, web("app:v2", "3"))
    await stage.rest(5)
    plan = harness.comment(1)
    assert "3 of 10 pods REPLACED" in plan
    assert "3 created, 1 deleted: 3 new, 9 old, 1 unavailable" in plan
    assert "gitkruise promote deployment/web -n shop" in plan
    assert harness.status(head, CHECK)[0] == "success"
    merged = await harness.merge(1)
    await stage.rest()
    assert (pods(stage), seen(stage)) == ({"app:v1": 7, "app:v2": 3}, ("Held", 3, 10))
    for commit in (head, merged):
        assert harness.status(commit) == ("success", "held at canary 3 (3/10 updated)")
    assert f"### gitkruise: `{merged[:7]}` → `main` on `test` · ⏸ Held" in harness.comment(1)
    assert "canary: '3'" in stage.status_file("units/shop/web/rollouts/Deployment.web.yaml")
    return merged


async def promoted(harness: ForgeHarness) -> tuple[str, str]:
    """Half of the pods, then all."""
    stage = harness.stage
    half = await act(stage, ActionVerb.PROMOTE, updated="50%")
    assert (pods(stage), seen(stage)) == ({"app:v1": 5, "app:v2": 5}, ("Held", 5, 10))
    whole = await act(stage, ActionVerb.PROMOTE)
    assert (pods(stage), seen(stage)) == ({"app:v2": 10}, ("Done", 10, 10))
    assert f"superseded by {half[:7]}" in harness.comment(1)
    return half, whole


async def broken(harness: ForgeHarness) -> str:
    """A pull request of a version that does not start, merged against its plan."""
    stage = harness.stage
    harness.branch(2, web("app:bad", "30%"))
    await stage.rest(5)
    assert "stuck" in harness.comment(2)
    merged = await harness.merge(2)
    await stage.rest()
    assert (stage.state, stage.rollout.updated) == ("Stuck", 3)
    assert pods(stage)["app:v2"] == 9
    assert harness.status(merged)[0] == "failure"
    assert "image app:bad cannot be pulled" in harness.status(merged)[1]
    assert "✗ Stuck" in harness.comment(2)
    return merged


def test_a_deployment_from_canary_to_done_and_back_from_a_bad_version(
    embedded: MakeStage, tmp_path: Path
) -> None:
    stage = embedded()
    harness = ForgeHarness(stage, tmp_path)

    async def script() -> None:
        async with harness.open():
            await harness.push(web("app:v1", "100%"), message="first")
            await stage.rest()
            assert (seen(stage), stage.state) == (("Done", 10, 10), "Done")
            merged = await canaried(harness)
            half, whole = await promoted(harness)
            bad = await broken(harness)
            back = await act(stage, ActionVerb.ROLLBACK)
            assert (pods(stage), seen(stage)) == ({"app:v2": 10}, ("Done", 10, 10))
            changes = [(step.commit.id, step.change) for step in dict(stage.record.steps)[WEB]]
            assert changes[1:] == [
                (merged, "canary 100% → 3, app v1 → v2"),
                (half, "canary 3 → 50%"),
                (whole, "canary 50% → 100%"),
                (bad, "canary 100% → 30%, app v2 → bad"),
                (back, "canary 30% → 100%, app bad → v2"),
            ]

    stage.play(script)
