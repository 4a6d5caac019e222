"""NodeImages on a real node: containerd pulls from a registry, with and without a login."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import pytest

from tests.node.agents import acting
from tests.node.cluster import Cluster
from tests.node.engine import NODE_IMAGES, driving, install_pull_jobs
from tests.node.pods import until

pytestmark = [pytest.mark.node, pytest.mark.slow]
SECRETS = "/api/v1/namespaces/kruise-daemon-config/secrets"
IMPOSSIBLE = "Impossible//name"


def secret(node: Cluster, name: str, login: str) -> dict[str, str]:
    """Create a pull secret for the registry; returns how a NodeImage names it."""
    username, _, password = login.partition(":")
    auths = {node.registry.host: {"username": username, "password": password}}
    text = base64.b64encode(json.dumps({"auths": auths}).encode()).decode()
    body = {"metadata": {"name": name}, "type": "kubernetes.io/dockerconfigjson",
            "data": {".dockerconfigjson": text}}  # fmt: skip
    node.ask(SECRETS, "POST", body)
    return {"namespace": "kruise-daemon-config", "name": name}


def test_images_are_pulled_with_the_right_login(served: Cluster) -> None:
    """Public and private images succeed; a wrong secret, tag or name fails and says why."""
    names = {
        key: served.image(f"{key}:v1").rpartition(":")[0]
        for key in ("public/app", "private/good", "private/bad")
    }
    good = secret(served, "good", served.registry.login)
    bad = secret(served, "bad", "puller:wrong")
    tag = {"tag": "v1", "createdAt": "2026-11-24T10:00:00Z", "pullPolicy": {"backoffLimit": 0}}
    images: dict[str, Any] = {
        names["public/app"]: {"tags": [tag, {**tag, "tag": "missing"}]},
        names["private/good"]: {"tags": [tag], "pullSecrets": [good]},
        names["private/bad"]: {"tags": [tag], "pullSecrets": [bad]},
        IMPOSSIBLE: {"tags": [tag]},
    }
    worker = served.workers[0]
    install_pull_jobs(served)
    at = f"{NODE_IMAGES}/{worker.name}"

    def ended() -> dict[tuple[str, str], Any]:
        """The final statuses by name and tag."""
        statuses = served.ask(at).get("status", {}).get("imageStatuses", {})
        return {(name, t["tag"]): t for name, tags in statuses.items() if name in images
                for t in tags["tags"] if "completionTime" in t}  # fmt: skip

    async def play() -> dict[tuple[str, str], Any]:
        async with acting(served):
            await asyncio.to_thread(served.ask, at, "PATCH", {"spec": {"images": images}})
            return dict(await asyncio.to_thread(until, ended, lambda seen: len(seen) == 5))

    found = asyncio.run(play())
    phases = {key: t["phase"] for key, t in found.items()}
    assert phases == {
        (names["public/app"], "v1"): "Succeeded",
        (names["public/app"], "missing"): "Failed",
        (names["private/good"], "v1"): "Succeeded",
        (names["private/bad"], "v1"): "Failed",
        (IMPOSSIBLE, "v1"): "Failed",
    }
    assert "not found" in found[names["public/app"], "missing"]["message"]
    assert "invalid reference format" in found[IMPOSSIBLE, "v1"]["message"]
    assert "401" in found[names["private/bad"], "v1"]["message"]
    listed = worker.ctr("images", "list", "-q").stdout
    assert f"{names['private/good']}:v1" in listed
    assert names["private/bad"] not in listed


def test_an_image_goes_with_its_job(served: Cluster) -> None:
    """Pulled for a job that asks for it, and removed from containerd once the job is gone."""
    image = served.image("passing/app:v1")
    worker, jobs = (
        served.workers[0],
        "/apis/apps.kruise.io/v1beta1/namespaces/default/imagepulljobs",
    )
    sandbox = {"annotations": {"gitkruise.io/remove-image": "true"}}
    spec = {"image": image, "completionPolicy": {"type": "Always"}, "sandboxConfig": sandbox}
    install_pull_jobs(served)

    def listed() -> bool:
        return image in worker.ctr("images", "list", "-q").stdout.split()

    async def play() -> None:
        async with driving(served), acting(served):
            kind = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "ImagePullJob"}
            body = {**kind, "metadata": {"name": "passing"}, "spec": spec}
            await asyncio.to_thread(served.ask, jobs, "POST", body)
            await asyncio.to_thread(until, listed, bool)
            done = f"{jobs}/passing"
            await asyncio.to_thread(
                until, lambda: served.ask(done), lambda job: "completionTime" in job["status"]
            )
            await asyncio.to_thread(served.ask, done, "DELETE")
            await asyncio.to_thread(until, listed, lambda there: not there)

    asyncio.run(play())
