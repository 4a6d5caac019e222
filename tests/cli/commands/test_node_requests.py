"""recreate, prepull: what a request will do, its objects, its end, and why there is none."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import PODS, ApiRequest, ResourceRef
from tests.cli.calls import Caller
from tests.cli.live import applied, apply, send
from tests.cli.shop import cloneset

pytestmark = pytest.mark.slow

REQUESTS = ResourceRef("apps.kruise.io", "v1beta1", "containerrecreaterequests")
JOBS = ResourceRef("apps.kruise.io", "v1beta1", "imagepulljobs")
NODE_IMAGES = ResourceRef("apps.kruise.io", "v1beta1", "nodeimages")
NODES = ResourceRef("", "v1", "nodes")


def listed(kubeconfig: Path, ref: ResourceRef, namespace: str = "shop") -> list[Obj]:
    (found,) = send(kubeconfig, ApiRequest(verb="list", resource=ref, namespace=namespace))
    return list(found["items"])


@pytest.fixture
def shop(pulling_cluster: Path, gk: Caller) -> Iterator[Path]:
    """The kubeconfig of a cluster with a ready CloneSet of three pods."""
    apply(pulling_cluster, cloneset(replicas=3))
    ready = ("get", "cloneset/checkout", "-n", "shop", "--kubeconfig", str(pulling_cluster),
             "--watch", "--exit-when-done", "--timeout", "60s")  # fmt: skip
    assert gk(*ready).code == 0
    yield pulling_cluster
    for ref in (REQUESTS, JOBS):
        for obj in listed(pulling_cluster, ref):
            name = obj["metadata"]["name"]
            send(pulling_cluster,
                 ApiRequest(verb="delete", resource=ref, namespace="shop", name=name))  # fmt: skip


@pytest.fixture
def pod(shop: Path) -> str:
    return str(listed(shop, PODS)[0]["metadata"]["name"])


def on(shop: Path) -> tuple[str, ...]:
    return ("-n", "shop", "--kubeconfig", str(shop))


def test_a_dry_run_explains_and_creates_nothing(gk: Caller, shop: Path, pod: str) -> None:
    done = gk("recreate", pod, "--unready-grace", "2", "--dry-run", *on(shop))
    assert done.code == 0
    assert f"recreate 1 container of pod {pod} -n shop" in done.out
    assert ", by simulated agent" in done.out
    assert "app  stopped within 30 s; kubelet starts it again" in done.out
    assert "the pod leaves service for at least 2 s" in done.out
    assert done.err == "dry run: nothing was created\n"
    assert listed(shop, REQUESTS) == []


def test_a_dry_run_as_yaml_is_the_request_as_admitted(gk: Caller, shop: Path, pod: str) -> None:
    done = gk("recreate", pod, "app", "--grace", "4", "--dry-run", "-o", "yaml", *on(shop))
    obj = yaml.safe_load(done.out)
    assert obj["kind"] == "ContainerRecreateRequest"
    assert obj["spec"]["podName"] == pod
    assert obj["spec"]["strategy"]["terminationGracePeriodSeconds"] == 4
    assert obj["spec"]["containers"][0]["statusContext"]["restartCount"] == 0
    assert done.err == ""
    assert listed(shop, REQUESTS) == []


def test_a_request_restarts_the_container_and_is_followed(gk: Caller, shop: Path, pod: str) -> None:
    done = gk("recreate", f"pod/{pod}", "app", "--wait", *on(shop))
    assert done.code == 0, done.err
    assert re.search(r"created  containerrecreaterequest/checkout-\S+\n$", done.out)
    assert f"1 of 1 containers of pod {pod} restarted\n" in done.err
    (status,) = next(
        p["status"]["containerStatuses"] for p in listed(shop, PODS) if p["metadata"]["name"] == pod
    )
    assert status["restartCount"] == 1
    (request,) = listed(shop, REQUESTS)
    assert request["status"]["phase"] == "Completed"


def test_a_request_as_json_and_as_a_name(gk: Caller, shop: Path, pod: str) -> None:
    made = gk("recreate", pod, "-o", "json", *on(shop)).obj
    name = gk("recreate", pod, "-o", "name", *on(shop)).out
    assert made["kind"] == "ContainerRecreateRequest"
    assert name.startswith(f"containerrecreaterequest/{pod}-")
    assert len(listed(shop, REQUESTS)) == 2


@pytest.mark.slow
def test_a_failed_wait_ends_with_1(gk: Caller, shop: Path, pod: str) -> None:
    done = gk("recreate", pod, "--min-started", "100000", "--deadline", "3", "--wait", *on(shop))
    assert done.code == 1
    assert "recreating has exceeded the activeDeadlineSeconds" in done.err


@pytest.mark.slow
def test_a_wait_that_takes_too_long(gk: Caller, shop: Path, pod: str) -> None:
    done = gk("recreate", pod, "--min-started", "100000", "--wait", "--timeout", "1s", *on(shop))
    assert done.code == 6
    assert "GK4605" in done.err
    assert "app is not ready yet" in done.err


BAD: dict[str, tuple[tuple[str, ...], str, str]] = {
    "pod": (("nobody",), "GK4601", 'there is no pod "nobody" in namespace shop'),
    "container": (("POD", "nginx"), "GK4601", 'has no container "nginx"'),
    "twice": (("POD", "app", "app"), "GK4601", "container app is named twice"),
}


@pytest.mark.parametrize("name", BAD)
def test_requests_that_cannot_work_are_not_created(
    gk: Caller, shop: Path, pod: str, name: str
) -> None:
    words, code, message = BAD[name]
    done = gk("recreate", *(pod if word == "POD" else word for word in words), *on(shop))
    assert done.code == 5
    assert code in done.err
    assert message in done.err
    assert "nothing was created" in done.err
    assert listed(shop, REQUESTS) == []


def test_without_an_agent_on_the_node(gk: Caller, shop: Path, pod: str) -> None:
    where = next(p["spec"]["nodeName"] for p in listed(shop, PODS) if p["metadata"]["name"] == pod)
    image(shop, where, "Debian")
    try:
        done = gk("recreate", pod, *on(shop))
        assert done.code == 5
        assert f"[GK4602]: no node agent found on node {where}" in done.err
        assert listed(shop, REQUESTS) == []
        assert gk("recreate", pod, "--any-agent", "--dry-run", *on(shop)).code == 0
    finally:
        image(shop, where, "gitkruise simulated node")


def image(shop: Path, node: str, os_image: str) -> None:
    """Give a node another operating system."""
    body = {"status": {"nodeInfo": {"osImage": os_image}}}
    send(shop, ApiRequest(verb="patch", resource=NODES, name=node, subresource="status", body=body,
                          content_type="application/merge-patch+json"))  # fmt: skip


def pull(gk: Caller, shop: Path, *words: str) -> Any:
    return gk("prepull", "cloneset/checkout", *words, *on(shop))


def test_a_pull_is_explained_carried_out_and_followed(gk: Caller, shop: Path) -> None:
    node_images(shop)
    dry = pull(gk, shop, "--dry-run")
    assert dry.code == 0, dry.err
    assert "prepull  1 image for cloneset/checkout -n shop" in dry.out
    assert "  registry.example.com/checkout:v1\n" in dry.out
    assert listed(shop, JOBS) == []
    done = pull(gk, shop, "--image", "registry.example.com/checkout:v2", "--wait")
    assert done.code == 0, done.err
    assert "created  imagepulljob/checkout-" in done.out
    assert re.search(r"checkout:v2 is on (\d) of \1 nodes\n", done.err)


def test_a_pull_that_fails_ends_with_1(gk: Caller, shop: Path) -> None:
    node_images(shop)
    words = ("--image", "registry.invalid/checkout:v2", "--retries", "0", "--parallelism", "9")
    done = pull(gk, shop, *words, "--wait", "-o", "json")
    assert done.code == 1
    assert json.loads(done.out)["status"]["failedNodes"]
    assert "failed on" in done.err


def test_several_images_are_a_list(gk: Caller, shop: Path) -> None:
    node_images(shop)
    done = pull(gk, shop, "--image", "a:v1", "--image", "b:v1", "--dry-run", "-o", "json")
    assert [item["spec"]["image"] for item in done.obj["items"]] == ["a:v1", "b:v1"]


def test_pulls_that_cannot_work_are_not_created(gk: Caller, shop: Path) -> None:
    for words, code in ((("--image", "App"), "GK4606"), (("--deadline", "5"), "GK4604")):
        done = pull(gk, shop, *words)
        assert (done.code, code in done.err) == (5, True), done.err
    absent = gk("prepull", "cloneset/none", *on(shop))
    assert absent.code == 5
    assert "name its namespace with -n" not in absent.err
    assert "gitkruise get rollouts -A" in absent.err
    assert listed(shop, JOBS) == []


def test_a_cluster_without_the_gate_says_so(gk: Caller, cluster: Path) -> None:
    with applied(cluster, cloneset(name="gateless", replicas=0)):
        done = gk("prepull", "cloneset/gateless", "--image", "a:v1", *on(cluster))
    assert done.code == 5
    assert "feature-gate ImagePullJobGate is not enabled" in done.err
    assert "--feature-gates" in done.err


def node_images(shop: Path) -> None:
    """Create the NodeImages, which the controller would do 30 s after a node is ready."""
    known = {obj["metadata"]["name"] for obj in listed(shop, NODE_IMAGES, "")}
    for node in listed(shop, NODES, ""):
        meta = {"name": node["metadata"]["name"], "labels": node["metadata"]["labels"]}
        if meta["name"] not in known:
            body = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage", "metadata": meta}
            send(shop, ApiRequest(verb="create", resource=NODE_IMAGES, body={**body, "spec": {}}))


def why(gk: Caller, shop: Path, *words: str) -> Any:
    return gk("why", "cloneset/checkout", *words, *on(shop))


def test_why_shows_what_agents_do_for_the_pods(gk: Caller, shop: Path, pod: str) -> None:
    node_images(shop)
    assert "Node agents" not in why(gk, shop).out
    assert gk("recreate", pod, "--min-started", "100000", *on(shop)).code == 0
    image_ = ("--image", "registry.invalid/checkout:v2", "--retries", "0", "--parallelism", "9")
    assert pull(gk, shop, *image_, "--wait").code == 1
    output = why(gk, shop).out
    assert re.search(rf"containerrecreaterequest/{pod}-\S+  InProgress: ", output)
    assert "imagepulljob/checkout-" in output
    assert "could not be pulled" in output
    request, job = why(gk, shop, "-o", "json").obj["agents"]
    assert (request["kind"], request["state"]) == ("ContainerRecreateRequest", "InProgress")
    assert (job["kind"], job["state"]) == ("ImagePullJob", "Failed")
    assert "registry.invalid/checkout:v2 on node-" in job["nodes"][0]
