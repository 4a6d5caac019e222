"""Drafts of pull jobs: which images on which nodes, and what the jobs say they will do."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.node.node_image import NodeImage, node_image
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.node.prepull_draft import (
    PrepullOptions,
    draft_jobs,
    images_of,
    pull_conduct,
    pull_problem,
    pulled_on,
    selected_nodes,
)
from tests.pods import raw_pod


def workload(kind: str = "CloneSet", **spec: Any) -> dict[str, Any]:
    template = {
        "spec": {
            "initContainers": [{"name": "init", "image": "busybox"}],
            "containers": [{"name": "a", "image": "app:v2"}, {"name": "b", "image": "app:v2"}],
            "imagePullSecrets": [{"name": "login"}],
        }
    }
    whole = {"selector": {"matchLabels": {"app": "web"}}, "template": template, **spec}
    return {
        "apiVersion": "apps.kruise.io/v1beta1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": whole,
    }


def image(node: str, phase: str = "") -> NodeImage:
    status = {"imageStatuses": {"app": {"tags": [{"tag": "v2", "phase": phase}]}}}
    return node_image({"metadata": {"name": node}, "status": status if phase else {}})


CRON = workload("CronJob", jobTemplate={"spec": {"template": workload()["spec"]["template"]}})
SIDECARS = {
    "kind": "SidecarSet",
    "metadata": {"name": "log"},
    "spec": {"containers": [{"name": "log", "image": "log:v1"}]},
}
PROBLEMS: dict[str, tuple[Any, PrepullOptions, str]] = {
    "template": (workload(), PrepullOptions(), ""),
    "bad-name": (workload(), PrepullOptions(images=("App",)), '"App" is not the name of an image'),
    "no-image": (workload(template={}), PrepullOptions(), "its template names no image"),
    "cron": (CRON, PrepullOptions(), ""),
    "sidecars": (
        SIDECARS,
        PrepullOptions(),
        "a SidecarSet does not select the pods of one namespace",
    ),
    "sidecars-everywhere": (SIDECARS, PrepullOptions(every_node=True), ""),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_what_cannot_be_pulled(name: str) -> None:
    raw, options, message = PROBLEMS[name]
    assert pull_problem(raw, options) == message


def test_images_are_those_of_the_template_each_once() -> None:
    assert images_of(workload(), PrepullOptions()) == ("busybox", "app:v2")
    assert images_of(CRON, PrepullOptions()) == ("busybox", "app:v2")
    assert images_of(SIDECARS, PrepullOptions()) == ("log:v1",)
    assert images_of(workload(), PrepullOptions(images=("x", "x"))) == ("x",)


def test_nodes_are_those_of_its_pods_or_all() -> None:
    pods = [
        pod_facts(raw_pod("web-1", nodeName="n1")),
        pod_facts(raw_pod("web-2", nodeName="n4")),
        pod_facts(raw_pod("other", nodeName="n2", labels={"app": "other"})),
        pod_facts(raw_pod("done", nodeName="n3", phase="Succeeded")),
    ]
    images = [image("n3"), image("n2"), image("n1")]
    assert selected_nodes(workload(), PrepullOptions(), pods, images) == (("n1",), ("n4",))
    every = PrepullOptions(every_node=True)
    assert selected_nodes(workload(), every, pods, images) == (("n1", "n2", "n3"), ())


def test_a_job_per_image_with_every_option() -> None:
    options = PrepullOptions(
        images=("app:v3",), secrets=("other",), parallelism=4, timeout_s=30, backoff_limit=0,
        deadline_s=90, ttl_s=5, always=True,
    )  # fmt: skip
    (job,) = draft_jobs(workload(), "shop", options)
    assert job["metadata"] == {"generateName": "web-", "namespace": "shop"}
    assert job["spec"] == {
        "image": "app:v3",
        "parallelism": 4,
        "completionPolicy": {
            "type": "Always",
            "ttlSecondsAfterFinished": 5,
            "activeDeadlineSeconds": 90,
        },
        "imagePullPolicy": "Always",
        "pullPolicy": {"timeoutSeconds": 30, "backoffLimit": 0},
        "podSelector": {"matchLabels": {"app": "web"}},
        "pullSecrets": ["other"],
    }
    first, second = draft_jobs(workload(), "shop", PrepullOptions(every_node=True))
    assert "podSelector" not in first["spec"]
    assert second["spec"]["pullSecrets"] == ["login"]


def test_what_the_jobs_say() -> None:
    nodes = [f"n{number}" for number in range(8)]
    assert pull_conduct(workload(), PrepullOptions(parallelism=2), nodes) == [
        "nodes    8: n0, n1, n2, n3, n4, n5 and 2 more",
        "pace     2 of 8 nodes at the same time, for each image",
        "attempts 4 per node, 600 s each; a node that fails is reported",
        "policy   skipped where it is present (IfNotPresent)",
        "secrets  login, copied to namespace kruise-daemon-config",
        "end      deleted 600 s after the end",
    ]
    assert "paused" in pull_conduct(workload(), PrepullOptions(parallelism=0), nodes)[1]


def test_nodes_that_pulled_it_before_are_counted() -> None:
    images = [image("n1", "Succeeded"), image("n2", "Failed"), image("n3", "Succeeded")]
    assert pulled_on("docker.io/library/app:v2", ["n1", "n2"], images) == 1
