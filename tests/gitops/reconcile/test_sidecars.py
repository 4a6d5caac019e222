"""Commits that change a SidecarSet become rollouts over running pods, told like any other."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.gitops.record import Rollout
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import APPLY_PATCH
from tests.gitops.stage import MakeStage, Stage, web
from tests.worlds import SPACE, container, sidecarset

MESH = ObjectKey("apps.kruise.io", "SidecarSet", "", "mesh")


def mesh(image: str = "mesh:v1", *, args: str = "", **update: Any) -> dict[str, Any]:
    made = {**container("mesh", image), **({"args": [args]} if args else {})}
    raw = sidecarset("mesh", made, updateStrategy={"maxUnavailable": 2, **update})
    return {**raw, "metadata": {"name": "mesh"}}


def rollout(stage: Stage) -> Rollout:
    return next(r for r in stage.record.rollouts if r.key == MESH)


@pytest.mark.slow
def test_a_sidecar_is_held_by_its_partition_and_finished_by_a_commit(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(), message="first")
            await stage.rest()
            assert stage.state == "Done"
            assert stage.images() == ["mesh:v1"] * 4, "the set was there before the pods"
            await stage.push(mesh("mesh:v2", partition=3), web(), message="canary")
            await stage.rest()
            assert stage.state == "Held"
            assert (rollout(stage).updated, rollout(stage).asked) == (1, 1)
            assert stage.images() == ["mesh:v1"] * 3 + ["mesh:v2"]
            await stage.push(mesh("mesh:v2"), web(), message="all")
            await stage.rest()
            assert stage.state == "Done"
            assert stage.images() == ["mesh:v2"] * 4
            steps = dict(stage.record.steps)[MESH]
            assert [(s.commit.subject, s.change, s.state) for s in steps] == [
                ("first", "created", State.DONE),
                ("canary", "mesh v1 → v2, partition 0 → 3", State.HELD),
                ("all", "partition 3 → 0", State.DONE),
            ]

    stage.play(script)
    status = stage.status_file("units/shop/web/rollouts/SidecarSet.mesh.yaml")
    assert "state: Done" in status


@pytest.mark.slow
def test_a_change_that_running_pods_cannot_follow_is_held_and_says_so(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(), message="first")
            await stage.rest()
            await stage.push(mesh("mesh:v2", args="-v"), web(), message="verbose")
            await stage.rest()
            assert stage.state == "Held"
            assert "4 differ in more than images until replaced" in rollout(stage).message
            await stage.push(mesh("mesh:v2", args="-v"), {**web(), "spec": {
                **web()["spec"], "replicas": 5,
            }}, message="grow")  # fmt: skip
            await stage.rest()
            assert stage.images() == ["mesh:v1"] * 4 + ["mesh:v2"], "new pods get it"
            assert rollout(stage).updated == 1

    stage.play(script)


@pytest.mark.slow
def test_an_image_nobody_can_pull_gets_stuck_at_the_first_pods(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web(), message="first")
            await stage.rest()
            await stage.push(mesh("mesh:bad"), web(), message="bad")
            await stage.rest()
            assert rollout(stage).state is State.STUCK
            assert "image mesh:bad cannot be pulled; 2 of 4 serve" in rollout(stage).message
            await stage.push(mesh(), web(), message="back")
            await stage.rest()
            assert stage.state == "Done"

    stage.play(script)


@pytest.mark.slow
def test_a_field_that_a_newer_version_has_in_another_form_is_no_drift(staged: MakeStage) -> None:
    """`namespace` of v1alpha1 is a selector of namespaces in the version that is stored."""
    stage = staged()
    alpha = {**mesh(), "apiVersion": "apps.kruise.io/v1alpha1"}
    alpha["spec"] = {**alpha["spec"], "namespace": SPACE}

    async def script() -> None:
        async with stage.running():
            await stage.push(alpha, web())
            await stage.rest()
            assert stage.state == "Done"
        stage.start_over()
        stage.wire.requests.clear()
        async with stage.running():
            await stage.follower.check()
            await stage.rest()
            applied = [r for r in stage.wire.requests if r.content_type == APPLY_PATCH]
            assert [r for r in applied if r.name == "mesh"] == []
            assert stage.state == "Done"

    stage.play(script)
