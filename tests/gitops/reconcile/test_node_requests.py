"""Requests to node agents and Jobs in the manifests of a unit: applied, followed, carried out
once."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.admission.chain import admit
from gitkruise.gitops.preview.inputs import read_side
from gitkruise.gitops.preview.preview import live_preview
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.config import Config, GitSource, GitSourceSpec, Unit
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import POD
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.gitops.stage import UNIT, MakeStage, Stage, config_map, web

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


PULLS = Gates(image_pull_job_gate=True)


def pull(image: str, replace: str = "") -> dict[str, Any]:
    meta = {"annotations": {"gitkruise.io/replace": replace}} if replace else {}
    spec = {"image": image, "completionPolicy": {"type": "Always"}}
    return {
        "apiVersion": f"{GROUP}/v1alpha1",
        "kind": "ImagePullJob",
        "metadata": {"name": "pull", **meta},
        "spec": spec,
    }


def complete(stage: Stage) -> None:
    """Report the job as complete, as its controller does."""
    ref = ResourceRef(GROUP, "v1alpha1", "imagepulljobs")
    status = {"desired": 1, "succeeded": 1, "completionTime": "2026-01-01T00:00:00Z"}
    patch = ApiRequest(
        verb="patch", resource=ref, namespace="shop", name="pull", subresource="status",
        body={"status": status}, content_type=MERGE_PATCH,
    )  # fmt: skip
    stage.world.handle(patch, stage.clock.now())
    stage.cluster.publish()


async def codes_of_plan(stage: Stage, commit: str) -> list[str]:
    source = GitSource("shop", "src", GitSourceSpec(url=str(stage.origin.bare), ref=stage.ref))
    config = Config(sources={"shop/src": source}, units={UNIT: Unit("shop", "web", stage.spec)})
    target = read_side(stage.repository, commit, config, load_catalog(), PULLS)
    preview = await live_preview(
        None, target, load_catalog(), PULLS, transport=stage.wire, now=stage.clock.now()
    )
    assert preview.changes[0].replaced != bool(preview.unplayed)
    return [finding.code for finding in preview.unplayed]


@pytest.mark.parametrize("asks", ["", "Enabled"])
def test_a_complete_job_for_images_pulls_no_other_one(staged: MakeStage, asks: str) -> None:
    """OpenKruise reads such a job no more, and its server takes the change."""
    stage = staged()
    stage.world.state.admit = lambda request: admit(request, PULLS)

    async def script() -> None:
        async with stage.running():
            await stage.push(pull("app:v1"))
            await stage.rest(10)
            before = stage.get("ImagePullJob", "pull", GROUP)["metadata"]["uid"]
            complete(stage)
            await stage.rest(10)
            assert stage.state == "Done"
            commit = await stage.push(pull("app:v2", asks))
            assert await codes_of_plan(stage, commit) == ([] if asks else ["GK2203"])
            await stage.rest(60)
            job = stage.get("ImagePullJob", "pull", GROUP)
            image, uid = job["spec"]["image"], job["metadata"]["uid"]
            if asks:
                assert (image, uid != before, stage.state) == ("app:v2", True, "Rolling")
            else:
                assert (image, uid, stage.state) == ("app:v1", before, "Rejected")
                assert [f.code for f in stage.record.findings] == ["GK2203"]

    stage.play(script)
