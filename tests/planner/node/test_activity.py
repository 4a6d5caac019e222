"""What agents do for a workload: requests of its pods, pulls of its images."""

from __future__ import annotations

from typing import Any

from gitkruise.model.node.node_image import NodeImage, node_image
from gitkruise.model.node.pull_job import PullJob, pull_job
from gitkruise.model.node.recreate_request import recreate_request
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.node.activity import (
    jobs_for,
    pull_sentences,
    requests_for,
    unfinished_pulls,
)
from tests.planner.node.requests import request
from tests.pods import raw_pod


def job(name: str, image: str, **spec: Any) -> PullJob:
    return pull_job({"metadata": {"name": name, "uid": name}, "spec": {"image": image, **spec}})


def node(name: str, phase: str, message: str = "", owner: str = "a", version: int = 0) -> NodeImage:
    tag = {"tag": "v1", "version": version, "ownerReferences": [{"uid": owner}]}
    status = {"tag": "v1", "phase": phase, "message": message}
    return node_image({
        "metadata": {"name": name},
        "spec": {"images": {"app": {"tags": [tag]}}},
        "status": {"imageStatuses": {"app": {"tags": [status]}}},
    })  # fmt: skip


def test_requests_are_those_of_the_pods_that_live() -> None:
    pods = [pod_facts(raw_pod("web-0", uid="pod-uid"))]
    assert [r.metadata.name for r in requests_for([recreate_request(request("app"))], pods)] == [
        "again"
    ]
    other = [pod_facts(raw_pod("web-0", uid="successor"))]
    assert list(requests_for([recreate_request(request("app"))], other)) == []


def test_jobs_are_those_of_the_images_or_of_the_pods() -> None:
    pods = [pod_facts(raw_pod("web-0"))]
    jobs = [
        job("c", "docker.io/library/app:v1"),
        job("b", "other:v1"),
        job("a", "other:v1", podSelector={"matchLabels": {"app": "web"}}),
    ]
    assert [j.metadata.name for j in jobs_for(jobs, pods, ["app:v1", "No image"])] == ["a", "c"]


def test_nodes_with_the_same_fault_share_a_sentence() -> None:
    nodes = [
        node("n3", "Failed", "no login"),
        node("n1", "Failed", "no login"),
        node("n2", "Pulling"),
        node("n4", "Succeeded"),
        node("n5", "Failed", owner="other"),
        node("n6", "Succeeded", version=1),
    ]
    found = unfinished_pulls([job("a", "app:v1")], nodes)
    assert list(pull_sentences(found)) == [
        "app:v1 on n1, n3: could not be pulled: no login",
        "app:v1 on n2: is being pulled",
        "app:v1 on n6: waits to be pulled",
    ]
