"""Webhooks see every pod that a controller of the embedded cluster makes, each one by itself."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.hooks.listener import listening, path_of
from tests.hooks.scenes import RULE
from tests.sandbox.served import Client, served

pytestmark = pytest.mark.slow
LOOKS = 200
REPLICAS = 4
MARK = [{"op": "add", "path": "/metadata/annotations", "value": {"by": "webhook"}}]


def pods(client: Client) -> list[dict[str, Any]]:
    listed = client.ask("/api/v1/namespaces/default/pods?labelSelector=app%3Dweb").body
    found: list[dict[str, Any]] = listed["items"]
    return found


def test_pods_of_a_cloneset_are_reviewed() -> None:
    with listening() as listener, served(SandboxOptions(ephemeral=True)) as running:
        client = running.client
        hook = {
            "name": "pods.example.com",
            "admissionReviewVersions": ["v1"],
            "sideEffects": "None",
            "clientConfig": {
                "url": listener.url + path_of({"response": {"patch": MARK}}),
                "caBundle": listener.bundle,
            },
            "rules": [{**RULE, "operations": ["*"], "resources": ["pods"]}],
        }
        kinds = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
        made = client.ask(kinds, "POST", {"metadata": {"name": "pods"}, "webhooks": [hook]})
        assert made.status == 201, made.data
        template = {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "c", "image": "web:1"}]},
        }
        spec = {"replicas": REPLICAS, "selector": {"matchLabels": {"app": "web"}}}
        body = {
            "apiVersion": "apps.kruise.io/v1beta1",
            "kind": "CloneSet",
            "metadata": {"name": "web"},
            "spec": {**spec, "template": template},
        }
        path = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets"
        assert client.ask(path, "POST", body).status == 201
        for _ in range(LOOKS):
            if len(pods(client)) == REPLICAS:
                break
            time.sleep(0.05)  # a real server, and controllers beside it
        found = pods(client)
        assert [pod["metadata"]["annotations"] for pod in found] == [{"by": "webhook"}] * REPLICAS
        asked = [one for one in listener.drain() if one["operation"] == "CREATE"]
        assert {one["object"]["metadata"]["name"] for one in asked} == {
            pod["metadata"]["name"] for pod in found
        }
