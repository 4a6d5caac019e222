"""Objects on the tests' cluster, there while a test runs."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from gitkruise.errors import AlreadyExists
from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE
from gitkruise.kube.auth.connection import from_kubeconfig
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.http import HttpTransport
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.lease_terms import SYNC_LEASE
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


@contextmanager
def leases(
    kubeconfig: Path, holders: Mapping[str, str], renewed: str, *, held_at: str = ""
) -> Iterator[None]:
    """Leases of the controller by the end of their name, renewed now, or at `held_at`; those that
    `holders` gives no holder were renewed last at `renewed`."""
    now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%S.000000Z")  # noqa: TID251  the cluster's
    requests = []
    for end, holder in holders.items():
        body = {
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": f"{SYNC_LEASE}{end}", "namespace": LEASE_NAMESPACE},
            "spec": {"holderIdentity": holder, "leaseDurationSeconds": 15,
                     "renewTime": (held_at or now) if holder else renewed},
        }  # fmt: skip
        requests.append(ApiRequest(
            verb="patch", resource=LEASES, namespace=LEASE_NAMESPACE, name=f"{SYNC_LEASE}{end}",
            body=body, content_type=APPLY_PATCH, params={"fieldManager": "test", "force": "true"},
        ))  # fmt: skip
    send(kubeconfig, *requests)
    try:
        yield
    finally:
        for request in requests:
            send(kubeconfig, replace(request, verb="delete", body=None, params={}, content_type=""))


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
