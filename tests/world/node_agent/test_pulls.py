"""ImagePullJobs in the embedded cluster: IMG-20 to IMG-34, PULL-2, PULL-7, PULL-8, PULL-11."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import ApiError
from gitkruise.model.node.node_image import NODE_IMAGE
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.wire.primitives.names import GroupKind, Obj, ObjectKey
from gitkruise.wire.primitives.times import parse_time
from tests.worlds import Lab, cloneset, pod

GATES = Gates(image_pull_job_gate=True)


def job(image: str = "nginx:1.20", name: str = "job", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": "ImagePullJob",
        "metadata": {"name": name},
        "spec": {"image": image, "completionPolicy": {"type": "Always"}, **spec},
    }


@pytest.fixture
def lab() -> Lab:
    made = Lab(gates=GATES)
    made.run(31)
    return made


def images(lab: Lab) -> list[Obj]:
    return lab.world.objects(NODE_IMAGE)


def counts(lab: Lab, made: Obj) -> str:
    status = lab.get(made)["status"]
    return "/".join(str(status[f]) for f in ("desired", "active", "succeeded", "failed"))


def test_img_30_every_ready_node_has_one_after_30_seconds() -> None:
    lab = Lab(gates=GATES)
    lab.run(29)
    assert images(lab) == []
    lab.run(2)
    nodes = lab.world.objects(GroupKind("", "Node"))
    assert [one["metadata"]["name"] for one in images(lab)] == [
        node["metadata"]["name"] for node in nodes
    ]
    assert images(lab)[0]["metadata"]["labels"] == nodes[0]["metadata"]["labels"]


def test_without_the_gate_there_are_none() -> None:
    lab = Lab()
    lab.run(60)
    assert images(lab) == []


def test_a_job_pulls_on_every_node(lab: Lab) -> None:
    made = lab.apply(job())
    lab.run(20)
    found = lab.get(made)["status"]
    assert (counts(lab, made), found["message"]) == ("3/0/3/0", "job has completed")
    (status,) = images(lab)[0]["status"]["imageStatuses"]["nginx"]["tags"]
    assert (status["phase"], status["progress"]) == ("Succeeded", 100)
    assert status["imageID"].startswith("nginx@sha256:")


def test_pull_8_parallelism_limits_the_nodes_at_a_time(lab: Lab) -> None:
    made = lab.apply(job(parallelism=1))
    lab.run(0.5)
    assert counts(lab, made) == "3/1/0/0"
    lab.run(20)
    assert counts(lab, made) == "3/0/3/0"
    starts = [
        one["status"]["imageStatuses"]["nginx"]["tags"][0]["startTime"] for one in images(lab)
    ]
    assert len({*starts}) == 3


@pytest.mark.parametrize("image", ["nginx:broken", "registry.invalid/nginx:1"])
def test_pull_11_an_image_that_cannot_be_pulled_fails(lab: Lab, image: str) -> None:
    made = lab.apply(job(image, parallelism=3, pullPolicy={"backoffLimit": 2}))
    lab.run(30)
    assert counts(lab, made) == "3/0/0/3"
    assert len(lab.get(made)["status"]["failedNodes"]) == 3


def test_nodes_are_chosen_by_name_label_and_pod(lab: Lab) -> None:
    lab.apply({**pod("p"), "metadata": {"name": "p", "labels": {"app": "web"}}})
    lab.run(10)
    name = images(lab)[0]["metadata"]["name"]
    chosen: list[dict[str, Any]] = [
        {"selector": {"names": [name, "gone"]}},
        {"selector": {"matchLabels": {"kubernetes.io/hostname": name}}},
        {"podSelector": {"matchLabels": {"app": "web"}}},
    ]
    made = [lab.apply(job(name=f"job-{at}", **spec)) for at, spec in enumerate(chosen)]
    lab.run(30)
    assert [counts(lab, one) for one in made] == ["1/0/1/0"] * 3


def test_img_32_a_job_that_is_gone_takes_its_tags_along(lab: Lab) -> None:
    made = lab.apply(job())
    lab.run(20)
    lab.delete(made)
    lab.run(20)
    assert all(not one["spec"].get("images") for one in images(lab))


def test_a_node_that_is_gone_takes_its_image_along(lab: Lab) -> None:
    name = images(lab)[0]["metadata"]["name"]
    node = lab.world.get(ObjectKey("", "Node", "", name))
    assert node is not None
    lab.delete({**node, "metadata": {**node["metadata"], "namespace": ""}})
    lab.run(5)
    assert name not in {one["metadata"]["name"] for one in images(lab)}


def test_images_of_an_update_in_place_are_pulled_ahead() -> None:
    gates = Gates(image_pull_job_gate=True, pre_download_image_for_in_place_update=True)
    lab = Lab(gates=gates)
    lab.apply(cloneset(replicas=5, maxUnavailable=1))
    lab.run(60)
    lab.patch(cloneset(), {"spec": {"template": cloneset(image="app:v2")["spec"]["template"]}})
    lab.run(1)
    jobs = lab.world.objects(PULL_JOB)
    assert [one["spec"]["image"] for one in jobs] == ["app:v2"]
    lab.run(600)
    pulled = [tag for one in images(lab) for tag in one["spec"].get("images", {})]
    assert lab.get(cloneset())["status"]["updatedReadyReplicas"] == 5
    assert set(pulled) <= {"app"}


REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no image": (job(""), "image can not be empty"),
    "IMG-1: no reference": (job("Nginx"), "invalid image Nginx"),
    "IMG-2: both": (job(selector={"names": ["a"]}, podSelector={}), "both selector"),
    "IMG-3: share": (job(parallelism="50%"), "percentage"),
    "IMG-3: text": (job(parallelism="many"), "valid integer"),
    "IMG-3: negative": (job(parallelism=-1), "non-negative"),
    "IMG-5: never": (
        job(completionPolicy={"type": "Never", "ttlSecondsAfterFinished": 1}), "only work with",
    ),
    "IMG-5: deadline": (
        job(completionPolicy={"type": "Always", "activeDeadlineSeconds": 5}), "greater than",
    ),
}  # fmt: skip


@pytest.mark.parametrize("row", REFUSED)
def test_a_job_that_no_controller_can_follow_is_refused(row: str) -> None:
    made, message = REFUSED[row]
    with pytest.raises(ApiError, match=message):
        Lab(gates=GATES).apply(made)


def test_img_9_without_its_gate_a_job_is_refused() -> None:
    with pytest.raises(ApiError, match="feature-gate ImagePullJobGate is not enabled"):
        Lab().apply(job())


def test_img_6_pull_secrets_stay(lab: Lab) -> None:
    made = lab.apply(job(pullSecrets=["a"]))
    with pytest.raises(ApiError, match="pullSecrets is immutable"):
        lab.patch(made, {"spec": {"pullSecrets": ["b"]}})
    assert lab.get(made)["spec"]["pullPolicy"] == {"timeoutSeconds": 600, "backoffLimit": 3}


def images_job(*images: str, **spec: Any) -> dict[str, Any]:
    made = job(name="all", **spec)
    rest = {field: value for field, value in made["spec"].items() if field != "image"}
    return {**made, "kind": "ImageListPullJob", "spec": {**rest, "images": list(images)}}


def test_pull_14_a_list_of_images_is_pulled_and_counted(lab: Lab) -> None:
    made = lab.apply(images_job("nginx:1.20", "redis:broken", pullPolicy={"backoffLimit": 0}))
    lab.run(60)
    status = lab.get(made)["status"]
    assert [status[f] for f in ("desired", "active", "completed", "succeeded")] == [2, 0, 2, 1]
    assert [one["name"] for one in status["failedImageStatuses"]] == ["redis:broken"]
    assert "completionTime" in status
    lab.delete(made)
    lab.run(20)
    assert lab.world.objects(PULL_JOB) == []


def secret() -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": "login"},
        "type": "kubernetes.io/dockerconfigjson",
        "data": {".dockerconfigjson": "e30="},
    }


SECRETS = GroupKind("", "Secret")


def test_img_21_a_pull_secret_is_copied_for_the_agents_and_given_up(lab: Lab) -> None:
    lab.apply(secret())
    made = lab.apply(job(pullSecrets=["login"], parallelism=1))
    lab.run(2)
    (copy,) = lab.world.objects(SECRETS, "kruise-daemon-config")
    assert copy["metadata"]["annotations"] == {
        "imagepulljobs.kruise.io/source-key": "shop/login",
        "imagepulljobs.kruise.io/references": "shop/job",
        "imagepulljobs.kruise.io/mode": "batch",
    }
    named = {
        (ref["namespace"], ref["name"], ref["mode"])
        for one in images(lab)
        for entry in (one["spec"].get("images") or {}).values()
        for ref in entry["pullSecrets"]
    }
    assert named == {("kruise-daemon-config", copy["metadata"]["name"], "batch")}
    lab.run(60)
    assert counts(lab, made) == "3/0/3/0"
    assert lab.world.objects(SECRETS, "kruise-daemon-config") == []
    assert "finalizers" not in lab.get(made)["metadata"]


def test_img_21_a_deleted_job_gives_its_copy_up(lab: Lab) -> None:
    lab.apply(secret())
    made = lab.apply(job(pullSecrets=["login"], parallelism=0))
    lab.run(5)
    assert len(lab.world.objects(SECRETS, "kruise-daemon-config")) == 1
    lab.delete(made)
    lab.run(5)
    assert lab.get(made) is None
    assert lab.world.objects(SECRETS, "kruise-daemon-config") == []


def test_a_job_does_without_a_secret_that_does_not_come(lab: Lab) -> None:
    made = lab.apply(job(pullSecrets=["login"]))
    lab.run(5)
    assert images(lab)[0]["spec"] == {}
    assert "PullSecretMissing" in lab.events("job")
    lab.run(60)
    assert counts(lab, made) == "3/0/3/0"


def test_a_secret_that_comes_late_is_waited_for(lab: Lab) -> None:
    made = lab.apply(job(pullSecrets=["login"]))
    lab.run(5)
    lab.apply(secret())
    lab.run(60)
    assert counts(lab, made) == "3/0/3/0"
    assert all(one["spec"]["images"]["nginx"]["pullSecrets"] for one in images(lab))


def started_after(lab: Lab, name: str, image: str, policy: str = "IfNotPresent") -> float:
    """Seconds until a new pod runs, on the profile that takes 1 s for a pull and for a start."""
    spec = {"containers": [{"name": "app", "image": image, "imagePullPolicy": policy}]}
    made = {**pod(name), "spec": spec}
    begin = lab.now
    lab.apply(made)
    lab.run(30)
    (status,) = lab.get(made)["status"]["containerStatuses"]
    at = parse_time(status["state"]["running"]["startedAt"])
    assert at is not None
    return (at - begin).total_seconds()


def test_a_pulled_image_shortens_the_start_of_a_pod(lab: Lab) -> None:
    lab.apply(job("nginx:1.20", parallelism=3))
    lab.run(30)
    usual = started_after(lab, "usual", "redis:7")
    assert started_after(lab, "ahead", "docker.io/library/nginx:1.20") == usual - 1
    assert started_after(lab, "again", "nginx:1.20", "Always") == usual
    found = lab.world.objects(GroupKind("", "Event"), "shop")
    messages = {event["message"] for event in found if event["involvedObject"]["name"] == "ahead"}
    assert 'Container image "docker.io/library/nginx:1.20" already present on machine' in messages
