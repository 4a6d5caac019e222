"""Objects on the tests' cluster, there while a test runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import yaml

from gitkruise.errors import AlreadyExists
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.wire.primitives.requests import APPLY_PATCH, ApiRequest, ResourceRef

CLONESETS = ResourceRef("apps.kruise.io", "v1alpha1", "clonesets")
WORKLOADS = (
    CLONESETS,
    ResourceRef("apps.kruise.io", "v1beta1", "statefulsets"),
    *(ResourceRef("apps", "v1", each) for each in ("deployments", "statefulsets", "daemonsets")),
)
NAMESPACES = ResourceRef("", "v1", "namespaces")


def send(kubeconfig: Path, *requests: ApiRequest) -> list[Any]:
    """Bodies of the answers."""

    async def talk() -> list[Any]:
        transport = HttpTransport(from_kubeconfig([kubeconfig]), SystemClock())
        try:
            return [(await transport.send(request)).body for request in requests]
        finally:
            await transport.close()

    return asyncio.run(talk())


def apply(kubeconfig: Path, manifest: str, **annotations: str) -> None:
    """Apply a workload, and make its namespace."""
    body = yaml.safe_load(manifest)
    notes = body["metadata"].get("annotations") or {}
    marks = {f"gitkruise.io/{k}": v for k, v in annotations.items()}
    body["metadata"]["annotations"] = {**notes, **marks}
    if annotations:
        labels = body["metadata"].get("labels") or {}
        body["metadata"]["labels"] = {**labels, "gitkruise.io/unit": "test"}
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    with suppress(AlreadyExists):
        send(kubeconfig, ApiRequest(verb="create", resource=NAMESPACES, body=space))
    request = ApiRequest(
        verb="patch", resource=_resource(body), namespace="shop", name=body["metadata"]["name"],
        body=body, content_type=APPLY_PATCH, params={"fieldManager": "test", "force": "true"},
    )  # fmt: skip
    send(kubeconfig, request)


def workloads(kubeconfig: Path) -> list[str]:
    """What the cluster runs, as `KIND NAMESPACE/NAME`."""
    lists = send(kubeconfig, *(ApiRequest(verb="list", resource=each) for each in WORKLOADS))
    return [
        f"{resource.plural} {obj['metadata']['namespace']}/{obj['metadata']['name']}"
        for resource, found in zip(WORKLOADS, lists, strict=True)
        for obj in found["items"]
    ]


def _resource(body: Any) -> ResourceRef:
    names = {"DaemonSet": "daemonsets", "Deployment": "deployments", "StatefulSet": "statefulsets"}
    group, _, version = body["apiVersion"].rpartition("/")
    plural = names.get(body["kind"])
    return ResourceRef(group, version, plural) if plural else CLONESETS


@contextmanager
def applied(kubeconfig: Path, manifest: str, **annotations: str) -> Iterator[None]:
    """The workload is there during the body."""
    apply(kubeconfig, manifest, **annotations)
    body = yaml.safe_load(manifest)
    yield
    send(
        kubeconfig,
        ApiRequest(
            verb="delete",
            resource=_resource(body),
            namespace="shop",
            name=body["metadata"]["name"],
        ),
    )
