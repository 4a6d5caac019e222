"""The node itself: a pod of an image from the registry on loopback runs and is told apart."""

from __future__ import annotations

import pytest

from tests.node.cluster import Cluster
from tests.node.pods import namespace, pod, ready, status, until

pytestmark = [pytest.mark.node, pytest.mark.slow]


def test_a_pod_of_an_image_from_the_registry_runs(node: Cluster) -> None:
    base = namespace(node, "pods")
    image = node.image("pods/app:v1")
    node.ask(f"{base}/pods", "POST", pod("web", image))
    found = until(lambda: node.ask(f"{base}/pods/web"), ready)
    assert status(found)["imageID"].startswith(f"{node.registry.host}/pods/app@sha256:")
    assert found["spec"]["nodeName"] == "127.0.0.1"
    assert ("pods/app", "v1") in node.registry.pulls
