"""A rollout that another controller undoes: record and `why` say that it makes no progress."""

from __future__ import annotations

import asyncio

import pytest

from gitkruise.gitops.inspect.cluster_view import Survey
from gitkruise.gitops.inspect.explain import explain
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.labels import CLONESET, SIDECARSET
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import GroupKind, Obj
from gitkruise.wire.primitives.requests import PODS, STRATEGIC_PATCH, ApiRequest
from tests.gitops.reconcile.test_sidecars import MESH, mesh
from tests.gitops.stage import MakeStage, Stage, web
from tests.worlds import SPACE

POD = GroupKind("", "Pod")
IN_PLACE = {"podUpdatePolicy": "InPlaceIfPossible"}


def revert(stage: Stage, pod: Obj, revision: str) -> None:
    """Another controller takes an update of `pod` back."""
    body = {
        "metadata": {
            "labels": {
                "controller-revision-hash": revision,
                "lifecycle.apps.kruise.io/state": "Normal",
            }
        },
        "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
    }
    request = ApiRequest(
        verb="patch", resource=PODS, namespace=SPACE, name=pod["metadata"]["name"], body=body,
        content_type=STRATEGIC_PATCH,
    )  # fmt: skip
    stage.world.handle(request, stage.clock.now(), user="reverter")
    stage.cluster.publish()


async def reverting(stage: Stage) -> None:
    """Undo every update of one pod, for ever."""
    pods = stage.world.objects(POD, SPACE)
    name = min(pod["metadata"]["name"] for pod in pods)
    old = next(p for p in pods if p["metadata"]["name"] == name)["metadata"]["labels"]
    while True:
        pod = stage.get("Pod", name)
        if pod is not None and pod["spec"]["containers"][0]["image"] == "app:v2":
            revert(stage, pod, old["controller-revision-hash"])
        await stage.clock.sleep(0.1)


@pytest.mark.slow
def test_a_rollout_without_progress_is_stuck_in_the_record_and_in_why(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(web(**IN_PLACE))
            await stage.rest()
            assert stage.state == "Done"
            async with asyncio.TaskGroup() as tasks:
                meddler = tasks.create_task(reverting(stage))
                await stage.push(web("app:v2", **IN_PLACE))
                for _ in range(200):
                    if stage.state == "Stuck":
                        break
                    await stage.rest(1)
                meddler.cancel()
            assert "GK4510" in stage.record.message
            survey = Survey(
                WorldTransport(stage.cluster), load_catalog(), (CLONESET,), namespace=SPACE
            )
            await survey.look()
            (managed,) = survey.managed(stage.clock.now())
            answer = explain(managed, None)
            assert answer.state is State.STUCK
            assert any("GK4510" in reason for reason in answer.reasons)
            assert not any("by itself" in move for move in answer.next)

    stage.play(script)


async def unmeshing(stage: Stage) -> None:
    """Give one pod its old sidecar and its old annotations back, for ever."""
    old = min(stage.world.objects(POD, SPACE), key=lambda pod: str(pod["metadata"]["name"]))
    name, image = old["metadata"]["name"], _mesh(old)["image"]
    while True:
        pod = stage.get("Pod", name)
        if pod is not None and _mesh(pod)["image"] != image:
            added = dict.fromkeys(pod["metadata"]["annotations"])
            body = {
                "metadata": {"annotations": {**added, **old["metadata"]["annotations"]}},
                "spec": {"containers": [{"name": "mesh", "image": image}]},
            }
            request = ApiRequest(
                verb="patch", resource=PODS, namespace=SPACE, name=name, body=body,
                content_type=STRATEGIC_PATCH,
            )  # fmt: skip
            stage.world.handle(request, stage.clock.now(), user="reverter")
            stage.cluster.publish()
        await stage.clock.sleep(0.1)


def _mesh(pod: Obj) -> Obj:
    return next(c for c in pod["spec"]["containers"] if c["name"] == "mesh")


@pytest.mark.slow
def test_a_sidecar_without_progress_is_stuck_in_the_record_and_in_why(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            await stage.push(mesh(), web())
            await stage.rest()
            async with asyncio.TaskGroup() as tasks:
                meddler = tasks.create_task(unmeshing(stage))
                await stage.push(mesh("mesh:v2"), web())
                for _ in range(200):
                    if stage.state == "Stuck":
                        break
                    await stage.rest(1)
                meddler.cancel()
            assert "GK4510" in stage.record.message
            survey = Survey(
                WorldTransport(stage.cluster), load_catalog(), (SIDECARSET,), namespace=SPACE
            )
            await survey.look()
            (managed,) = survey.managed(stage.clock.now())
            answer = explain(managed, None)
            assert answer.state is State.STUCK
            assert any("GK4510" in reason for reason in answer.reasons)
            await stage.rest(3 * 60)
            assert stage.state == "Done"
            assert stage.images() == ["mesh:v2"] * 4
            owner = stage.world.get(MESH)
            assert owner is not None
            assert "gitkruise.io/stalled" not in owner["metadata"]["annotations"]

    stage.play(script)
