"""Pods under two objects cannot start: the one that brings the bad container is blamed."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.cli.console.style import Style
from gitkruise.cli.views.status import build_view, status_lines
from gitkruise.gitops.inspect.cluster_view import Survey
from gitkruise.gitops.inspect.disruption_budgets import sharing
from gitkruise.gitops.inspect.explain import Why, explain
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import CLONESET, SIDECARSET
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import GroupKind
from tests.gitops.reconcile.test_sidecars import mesh
from tests.gitops.stage import MakeStage, Stage, web
from tests.worlds import deployment

pytestmark = pytest.mark.slow

DEPLOYMENT = GroupKind("apps", "Deployment")
BAD_POD = "1 pod runs the new revision and cannot start: image app:bad cannot be pulled"
RECREATE = {"podUpdatePolicy": "ReCreate"}


async def _survey(stage: Stage, *kinds: GroupKind) -> Survey:
    survey = Survey(WorldTransport(stage.cluster), load_catalog(), kinds)
    await survey.look()
    return survey


async def _why(stage: Stage, kind: GroupKind) -> Why:
    survey, now = await _survey(stage, kind), stage.clock.now()
    found = survey.managed(now)[0]
    others = await sharing(found, lambda other: _survey(stage, other), now)
    return explain(found, survey.plan(found.key, now, Gates()), sharing=others)


async def _next(stage: Stage) -> str:
    survey, now = await _survey(stage, CLONESET, SIDECARSET), stage.clock.now()
    view = build_view(survey.managed(now), (), now, cluster="test", source="src", namespace="")
    lines = status_lines(view, Style(colour=False, unicode=True, width=120), wide=True)
    return next(line for line in lines if line.startswith("Next:"))


@pytest.mark.parametrize("update", [{}, RECREATE], ids=["in place", "recreated"])
def test_a_bad_cloneset_image_is_not_blamed_on_the_sidecars(
    staged: MakeStage, update: dict[str, Any]
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(**update), message="first")
            await stage.rest()
            await stage.push(mesh(), web("app:bad", **update), message="bad")
            await stage.rest()
            guilty, innocent = await _why(stage, CLONESET), await _why(stage, SIDECARSET)
            assert str(guilty.state) == "Stuck"
            assert "gitkruise rollback cloneset/web -n shop" in guilty.next
            assert str(innocent.state) == "Done"
            assert "container app: image app:bad cannot be pulled" in innocent.message
            assert not any("rollback" in step for step in innocent.next)
            assert await _next(stage) == "Next: gitkruise why cloneset/web -n shop"
            states = {r.key.kind: str(r.state) for r in stage.record.rollouts}
            assert states == {"CloneSet": "Stuck", "SidecarSet": "Done"}

    stage.play(script)


def test_sidecars_that_wait_for_a_bad_cloneset_are_never_the_ones_to_roll_back(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(maxUnavailable=1), web(), message="first")
            await stage.rest()
            await stage.push(mesh(maxUnavailable=1), web("app:bad"), message="bad")
            await stage.rest()
            await stage.push(mesh("mesh:v2", maxUnavailable=1), web("app:bad"), message="mesh")
            await stage.rest(3600)
            innocent = await _why(stage, SIDECARSET)
            assert any("image app:bad cannot be pulled" in reason for reason in innocent.reasons)
            assert innocent.next == ("gitkruise why cloneset/web -n shop",)
            assert await _next(stage) == "Next: gitkruise why cloneset/web -n shop"

    stage.play(script)


def test_a_bad_sidecar_image_is_not_blamed_on_the_cloneset(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(**RECREATE), message="first")
            await stage.rest()
            await stage.push(mesh("mesh:bad"), web(**RECREATE), message="bad")
            await stage.rest()
            await stage.push(mesh("mesh:bad"), web("app:v2", **RECREATE), message="next")
            await stage.rest()
            guilty, innocent = await _why(stage, SIDECARSET), await _why(stage, CLONESET)
            assert str(guilty.state) == "Stuck"
            assert any("rollback" in step for step in guilty.next)
            assert any("image mesh:bad cannot be pulled" in reason for reason in innocent.reasons)
            assert innocent.next == ("gitkruise why sidecarset/mesh",)
            assert await _next(stage) == "Next: gitkruise why sidecarset/mesh"

    stage.play(script)


def test_a_deployment_whose_image_cannot_be_pulled_does_not_go_on_by_itself(
    staged: MakeStage,
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(deployment("store", 2), message="first")
            await stage.rest()
            assert (await _why(stage, DEPLOYMENT)).next == ()
            await stage.push(deployment("store", 2, "app:bad"), message="bad")
            for wait_s in (60, 1200):  # before its progress deadline, and after
                await stage.rest(wait_s)
                answer = await _why(stage, DEPLOYMENT)
                assert str(answer.state) == "Stuck"
                assert answer.reasons[0] == BAD_POD
                assert answer.next == (
                    "a commit that mends it (app.yaml:1)",
                    "gitkruise rollback deployment/store -n shop",
                )
                assert not any("by itself" in step for step in answer.next)
            await stage.push(deployment("store", 2, "app:v2"), message="mended")
            await stage.rest(0.1)
            assert not any("cannot start" in reason for reason in
                           (await _why(stage, DEPLOYMENT)).reasons)  # fmt: skip
            await stage.rest()
            assert (await _why(stage, DEPLOYMENT)).next == ()

    stage.play(script)


def test_a_deployment_held_by_its_canary_names_what_moves_it(embedded: MakeStage) -> None:
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(canaried("app:v1"), message="first")
            await stage.rest()
            await stage.push(canaried("app:v2"), message="second")
            await stage.rest()
            answer = await _why(stage, DEPLOYMENT)
            assert str(answer.state) == "Held"
            assert answer.reasons == (
                "3 pods stay on the current revision: canary 1 updates 1 of 4",
            )
            assert answer.next == ("gitkruise promote deployment/store -n shop",)
            await stage.push(canaried("app:bad"), message="bad")
            await stage.rest()
            answer = await _why(stage, DEPLOYMENT)
            assert str(answer.state) == "Stuck"
            assert answer.reasons[0] == BAD_POD

    stage.play(script)


def canaried(image: str) -> Any:
    obj: Any = deployment("store", 4, image)
    obj["metadata"]["annotations"] = {"gitkruise.io/canary": "1"}
    return obj


@pytest.mark.parametrize(
    ("after", "reason", "step"),
    [
        (
            mesh("mesh:v2", selector={"matchLabels": {"pick": "me"}}),
            "4 pods are left out by updateStrategy.selector",
            "a commit that changes updateStrategy.selector",
        ),
        (
            mesh("mesh:v2", args="-v"),
            (
                "4 pods cannot be updated in place, and nothing recreates them: "
                "containers.mesh.args changed"
            ),
            "deleting old pods",
        ),
    ],
    ids=["not selected", "more than images"],
)
def test_a_held_sidecarset_names_what_moves_it(
    staged: MakeStage, after: dict[str, Any], reason: str, step: str
) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(), message="first")
            await stage.rest()
            await stage.push(after, web(), message="second")
            await stage.rest()
            answer = await _why(stage, SIDECARSET)
            assert str(answer.state) == "Held"
            assert (answer.reasons[0], answer.next) == (reason, (step,))

    stage.play(script)


def test_a_set_that_updates_no_running_pod_is_mended_for_new_ones(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(type="NotUpdate"), web(), message="first")
            await stage.rest()
            await stage.push(mesh("mesh:bad", type="NotUpdate"), web("app:v2", **RECREATE))
            await stage.rest()
            answer = await _why(stage, SIDECARSET)
            assert str(answer.state) == "Stuck"
            assert answer.next == (
                "a commit that mends it (app.yaml:1)",
                "gitkruise rollback sidecarset/mesh",
                "then deleting the pods that cannot start: running pods keep their sidecars",
            )

    stage.play(script)
