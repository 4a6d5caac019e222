"""Pods on the real node: made, watched, compared."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from tests.node.cluster import Cluster

HANG = 1200  # looks, a twentieth of a second apart: a guard, not a measurement


def namespace(cluster: Cluster, name: str) -> str:
    """Create a namespace and wait for its service account; returns the path of its objects."""
    cluster.ask("/api/v1/namespaces", "POST", {"metadata": {"name": name}})
    base = f"/api/v1/namespaces/{name}"
    until(lambda: cluster.ask(f"{base}/serviceaccounts")["items"], bool)
    return base


def pod(name: str, image: str, **spec: Any) -> dict[str, Any]:
    """A pod with one container `app` on the host's network."""
    container = {"name": "app", "image": image, **spec.pop("container", {})}
    return {"metadata": {"name": name}, "spec": pod_spec([container], **spec)}


def pod_spec(containers: list[dict[str, Any]], **spec: Any) -> dict[str, Any]:
    return {
        "hostNetwork": True,
        "automountServiceAccountToken": False,
        "terminationGracePeriodSeconds": 2,
        "containers": containers,
        **spec,
    }


def until(look: Callable[[], Any], pleased: Callable[[Any], object]) -> Any:
    """The first answer of `look` that pleases."""
    found = None
    for _ in range(HANG):
        found = look()
        if pleased(found):
            return found
        time.sleep(0.05)
    raise AssertionError(f"still waiting; last: {found}")


def ready(found: dict[str, Any]) -> bool:
    conditions = found.get("status", {}).get("conditions", [])
    return any((c["type"], c["status"]) == ("Ready", "True") for c in conditions)


def status(found: dict[str, Any], container: str = "app") -> dict[str, Any]:
    """The status of one container; empty until the kubelet has written it."""
    statuses = found.get("status", {}).get("containerStatuses", [])
    return next((s for s in statuses if s["name"] == container), {})
