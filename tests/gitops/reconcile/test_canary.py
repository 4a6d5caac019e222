"""Deployments with a canary, driven by commits: CAN-30 to CAN-32."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.preview.cluster_facts import cluster_facts
from gitkruise.gitops.preview.inputs import read_side, whole_repository
from gitkruise.model.planning.canary import GIT_PAUSE
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sync.annotations import annotation
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.gitops.stage import MakeStage, Stage
from tests.worlds import SPACE, deployment

pytestmark = pytest.mark.slow


def web(image: str, canary: str | None, replicas: int = 10, **spec: Any) -> Any:
    rolling = {"maxSurge": 2, "maxUnavailable": 1}
    obj: Any = deployment(
        image=image,
        replicas=replicas,
        strategy={"type": "RollingUpdate", "rollingUpdate": rolling},
        **spec,
    )
    notes = {} if canary is None else {"gitkruise.io/canary": canary}
    obj["metadata"] = {"name": "web", "annotations": notes}
    return obj


def images(stage: Stage) -> dict[str, int]:
    found = stage.images()
    return {image: found.count(image) for image in sorted(set(found))}


def live(stage: Stage) -> Any:
    return stage.get("Deployment", "web", "apps")


def writes(stage: Stage) -> int:
    return int(live(stage)["metadata"]["resourceVersion"])


def resume(stage: Stage) -> None:
    """`kubectl rollout resume`."""
    request = ApiRequest(
        verb="patch",
        resource=ResourceRef("apps", "v1", "deployments"),
        namespace=SPACE,
        name="web",
        body={"spec": {"paused": None}},
        content_type="application/strategic-merge-patch+json",
    )
    stage.world.handle(request, stage.clock.now())
    stage.cluster.publish()


@pytest.mark.parametrize("spec", [{}, {"paused": False}], ids=["no paused", "paused false"])
def test_can_31_commits_lead_a_canary_to_its_end(
    embedded: MakeStage, spec: Any, caplog: pytest.LogCaptureFixture
) -> None:
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1", "3", **spec))
            await stage.rest()
            await stage.push(web("app:v2", "3", **spec))
            await stage.rest()
            assert images(stage) == {"app:v1": 7, "app:v2": 3}
            assert (stage.state, live(stage)["spec"]["paused"]) == ("Held", True)
            await stage.push(web("app:v2", "60%", **spec))
            await stage.rest()
            assert images(stage) == {"app:v1": 4, "app:v2": 6}
            assert stage.state == "Held"
            await stage.push(web("app:v3", "60%", **spec))
            await stage.rest()
            assert images(stage) == {"app:v1": 4, "app:v3": 6}
            await stage.push(web("app:v3", None, **spec))
            await stage.rest()
            assert images(stage) == {"app:v3": 10}
            assert not any("TakenOver" in line for line in caplog.messages)
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.parametrize("spec", [{}, {"paused": False}], ids=["no paused", "paused false"])
def test_can_30_the_pause_is_no_drift_and_other_commits_keep_it(
    embedded: MakeStage, spec: Any
) -> None:
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1", "3", **spec))
            await stage.rest()
            await stage.push(web("app:v2", "3", **spec))
            await stage.rest()
            settled = writes(stage)
            await stage.rest(1800)
            assert writes(stage) == settled
            assert stage.record.drift == ()
            await stage.push(web("app:v2", "3", 20, **spec))
            await stage.rest()
            assert images(stage) == {"app:v1": 14, "app:v2": 6}
            assert (stage.state, live(stage)["spec"]["paused"]) == ("Held", True)

    stage.play(script)


def test_can_30_a_correction_of_drift_keeps_the_pause(embedded: MakeStage) -> None:
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1", "3"))
            await stage.rest()
            await stage.push(web("app:v2", "3"))
            await stage.rest()
            stage.meddle(web("app:v9", "3"))
            await stage.rest()
            assert images(stage) == {"app:v1": 7, "app:v2": 3}
            assert live(stage)["spec"]["paused"] is True
            assert stage.state == "Held"

    stage.play(script)


@pytest.mark.parametrize("first", ["resume", "commit"])
def test_can_28_a_resume_next_to_a_commit_of_another_value_approves_only_that_commit(
    embedded: MakeStage, first: str
) -> None:
    """`kubectl rollout resume` comes just before the commit, or as soon as it is applied."""
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1", "3"))
            await stage.rest()
            await stage.push(web("app:v2", "3"))
            await stage.rest()
            assert (stage.state, images(stage)) == ("Held", {"app:v1": 7, "app:v2": 3})
            if first == "resume":
                resume(stage)
            await stage.push(web("app:v2", "9"))
            if first == "commit":
                resume(stage)
            await stage.rest()
            assert (stage.state, images(stage)) == ("Held", {"app:v1": 1, "app:v2": 9})
            resume(stage)
            await stage.rest()
            assert (stage.state, images(stage)) == ("Done", {"app:v2": 10})

    stage.play(script)


def test_can_32_a_pause_in_git_is_paused_and_not_held(embedded: MakeStage) -> None:
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1", "3"))
            await stage.rest()
            await stage.push(web("app:v2", "3", paused=True))
            await stage.rest()
            assert images(stage) == {"app:v1": 10}
            assert stage.state == "Paused"

    stage.play(script)


HELD = {"app:v1": 7, "app:v2": 3}
# commits after the pause of v2 at canary 3, as (image, canary, whether git pauses); the end
PAUSES: dict[str, tuple[list[tuple[str, str, bool]], str, dict[str, int]]] = {
    "a pause": ([("app:v2", "3", True)], "Held", HELD),
    "a pause and its end": ([("app:v2", "3", True), ("app:v2", "3", False)], "Held", HELD),
    "another template while git pauses": (
        [("app:v2", "3", True), ("app:v3", "3", True)], "Paused", HELD),
    "and the end of that": (
        [("app:v2", "3", True), ("app:v3", "3", True), ("app:v3", "3", False)], "Held",
        {"app:v1": 7, "app:v3": 3}),
    "another template with the pause, and its end": (
        [("app:v3", "3", True), ("app:v3", "3", False)], "Held", {"app:v1": 7, "app:v3": 3}),
    "another template with the end": (
        [("app:v2", "3", True), ("app:v3", "3", False)], "Held", {"app:v1": 7, "app:v3": 3}),
    "another value while git pauses, and the end": (
        [("app:v2", "60%", True), ("app:v2", "60%", False)], "Held", {"app:v1": 4, "app:v2": 6}),
    "back to the old template while git pauses, and the end": (
        [("app:v1", "3", True), ("app:v1", "3", False)], "Done", {"app:v1": 10}),
}  # fmt: skip


@pytest.mark.parametrize("spec", [{}, {"paused": False}], ids=["no paused", "paused false"])
@pytest.mark.parametrize("name", PAUSES)
def test_can_38_a_pause_by_git_ends_by_git(embedded: MakeStage, name: str, spec: Any) -> None:
    commits, state, pods = PAUSES[name]
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            for image in ("app:v1", "app:v2"):
                await stage.push(web(image, "3", **spec))
                await stage.rest()
            assert (stage.state, images(stage)) == ("Held", HELD)
            for image, canary, paused in commits:
                await stage.push(web(image, canary, **({"paused": True} if paused else spec)))
                await stage.rest()
            assert (stage.state, images(stage)) == (state, pods)
            pauses_both = state == "Held" and commits[-1][2]
            mark = annotation(live(stage), GIT_PAUSE)
            assert (mark == "canary") is pauses_both

    stage.play(script)


def test_a_cluster_that_would_not_pause_gets_no_canary(staged: MakeStage) -> None:
    """CAN-33: Kubernetes' Deployment controller would update all pods."""
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1", None))
            await stage.rest()
            new = await stage.push(web("app:v2", "3"))
            await stage.rest()
            assert (stage.state, images(stage)) == ("Rejected", {"app:v1": 10})
            assert [f.code for f in stage.record.findings] == ["GK2404"]
            side = read_side(
                stage.repository, new, whole_repository(), stage.world.catalog, Gates()
            )
            facts = await cluster_facts(
                None, side, stage.world.catalog, transport=stage.wire, now=stage.clock.now()
            )
            assert [f.code for f in facts.findings] == ["GK2404"]
            await stage.push(web("app:v2", None))
            await stage.rest()
            assert (stage.state, images(stage)) == ("Done", {"app:v2": 10})

    stage.play(script)


def test_a_pod_of_a_deployment_that_cannot_start_is_reported_when_it_fails(
    embedded: MakeStage,
) -> None:
    """Pods of a Deployment belong to its ReplicaSets; the unit hears of them all the same."""
    stage = embedded()

    async def script() -> None:
        async with stage.running():
            await stage.push(web("app:v1-broken", None, replicas=2))
            await stage.rest(5)
            assert (stage.state, "cannot start" in stage.record.message) == ("Stuck", True)

    stage.play(script)
