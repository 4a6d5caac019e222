"""Where a webhook behind a service is called: at addresses that programs of this host can have."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.sandbox.backend.webhook_client import EndpointAddress, Nowhere, place_of
from gitkruise.world.api.cluster import World
from tests.worlds import START, create, empty_world

CLIENT = {"service": {"namespace": "shop", "name": "hook", "path": "/review"}}
NAMED = "https://hook.shop.svc:443/review?timeout=10s"
POD = {"kind": "Pod", "name": "hook-1", "namespace": "shop"}


def service(**spec: Any) -> dict[str, Any]:
    meta = {"name": "hook", "namespace": "shop"}
    ports = [{"name": "web", "port": 443, "targetPort": 9443}]
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": meta,
        "spec": {"ports": ports, **spec},
    }


def endpoints(*addresses: dict[str, Any], port: str = "web") -> dict[str, Any]:
    subset = {"addresses": list(addresses), "ports": [{"name": port, "port": 9443}]}
    meta = {"name": "hook", "namespace": "shop"}
    return {"apiVersion": "v1", "kind": "Endpoints", "metadata": meta, "subsets": [subset]}


def endpoint_slice(address: str, **more: Any) -> dict[str, Any]:
    labels = {"kubernetes.io/service-name": "hook"}
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"name": "hook-1", "namespace": "shop", "labels": labels},
        "addressType": "IPv4",
        "ports": [{"name": "web", "port": 8443}],
        "endpoints": [{"addresses": [address], **more}],
    }


def world_with(*objects: dict[str, Any]) -> World:
    world = empty_world()
    for obj in objects:
        request = create(world, obj)
        world.handle(request, START)
    return world


@pytest.mark.parametrize(
    ("objects", "url"),
    [
        ((service(), endpoints({"ip": "192.0.2.1"})), "https://192.0.2.1:9443/review?timeout=10s"),
        (
            (service(), endpoints({"ip": "10.1.1.1", "targetRef": POD}, {"ip": "192.0.2.2"})),
            "https://192.0.2.2:9443/review?timeout=10s",
        ),
        ((service(), endpoint_slice("192.0.2.3")), "https://192.0.2.3:8443/review?timeout=10s"),
        (
            (service(type="ExternalName", externalName="localhost", ports=[]),),
            "https://localhost:443/review?timeout=10s",
        ),
    ],
    ids=["endpoints", "beside a pod", "slice", "external name"],
)
def test_a_service_leads_to_a_program(objects: tuple[dict[str, Any], ...], url: str) -> None:
    assert place_of(world_with(*objects), CLIENT, 10) == EndpointAddress(
        NAMED, url, "hook.shop.svc"
    )


@pytest.mark.parametrize(
    ("objects", "why"),
    [
        ((), 'service "hook" not found'),
        ((service(ports=[{"port": 80}]),), 'no service port 443 found for service "hook"'),
        ((service(),), 'no endpoints available for service "hook"'),
        ((service(), endpoints({"ip": "192.0.2.1"}, port="other")), "no endpoints available"),
        ((service(), endpoints({"ip": "10.1.1.1", "targetRef": POD})), "pods, which are simulated"),
        (
            (service(), endpoint_slice("192.0.2.1", conditions={"ready": False})),
            "no endpoints available",
        ),
    ],
)
def test_a_service_leads_nowhere(objects: tuple[dict[str, Any], ...], why: str) -> None:
    with pytest.raises(Nowhere, match=why):
        place_of(world_with(*objects), CLIENT, 10)


def test_a_url_is_called_as_it_stands() -> None:
    url = "https://127.0.0.1:9443/review"
    shown = f"{url}?timeout=3s"
    assert place_of(empty_world(), {"url": url}, 3) == EndpointAddress(shown, shown)
