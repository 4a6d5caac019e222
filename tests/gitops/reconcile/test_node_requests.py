"""Requests to node agents and Jobs in the manifests of a unit: applied, followed, carried out
once."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.workloads.pod import POD
from tests.gitops.stage import MakeStage, Stage, config_map, web

pytestmark = pytest.mark.slow
GROUP = "apps.kruise.io"


def request(pod: str, name: str = "again", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ContainerRecreateRequest",
        "metadata": {"name": name},
        "spec": {"podName": pod, "containers": [{"name": "app"}], **spec},
    }


async def rolled_out(stage: Stage) -> str:
    """Roll the CloneSet out; the name of one of its pods."""
    await stage.push(web())
    await stage.rest(60)
    return str(stage.world.objects(POD, "shop")[0]["metadata"]["name"])


def restarts(stage: Stage, pod: str) -> int:
    (status,) = stage.get("Pod", pod)["status"]["containerStatuses"]
    return int(status["restartCount"])


def test_a_request_is_carried_out_once_whatever_is_committed_next(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            pod = await rolled_out(stage)
            await stage.push(web(), request(pod))
            await stage.rest(1)
            assert stage.state == "Rolling"
            await stage.rest(60)
            assert (stage.state, restarts(stage, pod)) == ("Done", 1)
            await stage.push(config_map("settings", a="b"), request(pod), web())
            await stage.rest(700)
            assert (stage.state, restarts(stage, pod)) == ("Done", 1)

    stage.play(script)


def test_a_time_to_live_does_not_repeat_the_request(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            pod = await rolled_out(stage)
            await stage.push(web(), request(pod, ttlSecondsAfterFinished=5))
            await stage.rest(700)
            assert (stage.state, restarts(stage, pod)) == ("Done", 1)
            assert stage.wire.writes() == ["patch web", "patch again"]
            (found,) = stage.record.findings
            assert found.code == "GK2026"
            assert "ttlSecondsAfterFinished is left out" in found.message

    stage.play(script)


def test_a_time_to_live_does_not_repeat_a_job(embedded: MakeStage) -> None:
    stage = embedded()
    pod = {"restartPolicy": "Never", "containers": [{"name": "m", "image": "job:v1"}]}
    job = {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "migrate"},
        "spec": {"ttlSecondsAfterFinished": 5, "template": {"spec": pod}},
    }

    async def script() -> None:
        async with stage.running():
            await stage.push(job)
            await stage.rest(60)
            uid = stage.get("Job", "migrate", "batch")["metadata"]["uid"]
            await stage.rest(700)
            assert stage.get("Job", "migrate", "batch")["metadata"]["uid"] == uid
            assert stage.state == "Done"
            assert [f.code for f in stage.record.findings] == ["GK2026"]

    stage.play(script)


def test_a_changed_request_is_rejected_and_asks_for_another_name(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            pod = await rolled_out(stage)
            await stage.push(web(), request(pod))
            await stage.rest(60)
            await stage.push(web(), request(pod, activeDeadlineSeconds=60))
            await stage.rest(60)
            assert stage.state == "Rejected"
            (found,) = stage.record.findings
            assert found.code == "GK2102"
            assert "spec of ContainerRecreateRequest is immutable" in found.message
            assert dict(found.notes)["next"].endswith("give the new one another name")

    stage.play(script)


def test_a_request_that_fails_is_stuck_with_the_reason(staged: MakeStage) -> None:
    stage = staged()

    async def script() -> None:
        async with stage.running():
            pod = await rolled_out(stage)
            strategy = {"minStartedSeconds": 1000}
            await stage.push(web(), request(pod, strategy=strategy, activeDeadlineSeconds=20))
            await stage.rest(60)
            assert stage.state == "Stuck"
            assert "recreating has exceeded the activeDeadlineSeconds" in stage.record.message
            await stage.push(web(), request("none", name="none"))
            await stage.rest(60)
            assert stage.state == "Rejected"
            assert "no found Pod named none" in stage.record.findings[0].message

    stage.play(script)
