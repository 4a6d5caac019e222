"""Endpoints follow Services and pods; many pods are spread over slices, and looked at less often.

What the lists say is compared with the real controllers' in tests/transcripts/test_controlled.py.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

from gitkruise.world.controllers.endpoint_subsets import OVER_CAPACITY
from gitkruise.world.controllers.endpoints import EndpointsController
from gitkruise.world.controllers.garbage_collector import GarbageCollector
from gitkruise.world.controllers.namespace import NamespaceController
from tests.world.api_client import PODS, Api

SERVICES: Final = "/api/v1/namespaces/default/services"
ENDPOINTS: Final = "/api/v1/namespaces/default/endpoints"
SLICES: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
SERVICE: Final = {
    "metadata": {"name": "web"},
    "spec": {
        "clusterIP": "10.96.0.9",
        "selector": {"app": "web"},
        "ports": [{"port": 80, "targetPort": 8080, "protocol": "TCP"}],
    },
}


def pod(number: int, app: str = "web") -> dict[str, Any]:
    ip = f"10.1.{number // 250}.{number % 250 + 1}"
    ready = {"type": "Ready", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"web-{number:04}",
            "namespace": "default",
            "labels": {"app": app},
            "uid": f"uid-{number}",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "resourceVersion": "1",
        },
        "spec": {"nodeName": "one", "containers": [{"name": "c", "image": "web:1"}]},
        "status": {"phase": "Running", "podIPs": [{"ip": ip}], "conditions": [ready]},
    }


def with_pods(count: int, *services: dict[str, Any]) -> Api:
    api = Api()
    api.post("/api/v1/nodes", {"metadata": {"name": "one"}})
    for service in services:
        api.post(SERVICES, service)
    everything = [*api.world.state.everything(), *(pod(number) for number in range(count))]
    api.world.restore(everything, api.world.version + 1)
    return api


def sizes(api: Api) -> list[int]:
    return sorted(len(one["endpoints"] or ()) for one in api.get(SLICES)["items"])


def turn(api: Api, name: str, status: str) -> None:
    condition = {"type": "Ready", "status": status, "lastTransitionTime": "2026-01-01T00:00:09Z"}
    api.merge(f"{PODS}/{name}/status", {"status": {"conditions": [condition]}})


def test_a_slice_holds_a_hundred_and_stays_as_it_is() -> None:
    api, controller = with_pods(230, SERVICE), EndpointsController()
    controller.run(api.world, api.now)
    assert sizes(api) == [30, 100, 100]
    before = {one["metadata"]["uid"]: one["metadata"]["generation"] for one in slices(api)}
    api.delete(f"{PODS}/web-0005", {"gracePeriodSeconds": 0})
    controller.run(api.world, api.wait(seconds=9))
    assert sizes(api) == [30, 99, 100]
    after = {one["metadata"]["uid"]: one["metadata"]["generation"] for one in slices(api)}
    assert sorted(after[uid] - before[uid] for uid in before) == [0, 0, 1]


def slices(api: Api) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = api.get(SLICES)["items"]
    return found


def test_more_pods_go_where_there_is_room() -> None:
    api, controller = with_pods(130, SERVICE), EndpointsController()
    controller.run(api.world, api.now)
    for number in range(200, 260):
        fresh = pod(number)
        name, labels = fresh["metadata"]["name"], fresh["metadata"]["labels"]
        api.post(PODS, {**fresh, "metadata": {"name": name, "labels": labels}})
        api.merge(f"{PODS}/{name}/status", {"status": fresh["status"]})
    controller.run(api.world, api.wait(seconds=9))
    assert sizes(api) == [90, 100]


def test_no_more_than_a_thousand_addresses_and_the_ready_ones_first() -> None:
    api, controller = with_pods(1003, SERVICE), EndpointsController()
    for number in range(4):
        turn(api, f"web-{number:04}", "False")
    controller.run(api.world, api.now)
    found = api.get(f"{ENDPOINTS}/web")
    assert found["metadata"]["annotations"][OVER_CAPACITY] == "truncated"
    (subset,) = found["subsets"]
    assert (len(subset["addresses"]), len(subset["notReadyAddresses"])) == (999, 1)
    api.send("DELETE", PODS, {"gracePeriodSeconds": 0})
    controller.run(api.world, api.wait(seconds=9))
    found = api.get(f"{ENDPOINTS}/web")
    assert OVER_CAPACITY not in found["metadata"].get("annotations", {})
    assert sizes(api) == [0]


def test_a_service_with_many_pods_rests_between_two_looks() -> None:
    api, controller = with_pods(500, SERVICE), EndpointsController()
    assert controller.run(api.world, api.now) is None
    before = api.world.version
    for number in range(3):
        turn(api, f"web-{number:04}", "False")
    assert controller.run(api.world, api.now) == api.now + timedelta(seconds=0.7)
    assert api.world.version == before + 3
    assert controller.run(api.world, api.wait(seconds=0.7)) is None
    written = [record.key.kind for record in api.world.records_since(before + 3)]
    assert written == ["Endpoints", "EndpointSlice"]


def test_one_that_starts_again_writes_what_is_other_by_now() -> None:
    other = {**SERVICE, "metadata": {"name": "gone"}}
    api = with_pods(3, SERVICE, other)
    EndpointsController().run(api.world, api.now)
    before = api.world.version
    EndpointsController().run(api.world, api.now)
    assert api.world.version == before
    api.delete(f"{SERVICES}/gone")
    EndpointsController().run(api.world, api.now)
    GarbageCollector().run(api.world, api.now)
    assert api.names(ENDPOINTS) == ["web"]
    assert [one["metadata"]["generateName"] for one in slices(api)] == ["web-"]


def test_a_selector_that_changes_finds_others() -> None:
    api, controller = with_pods(3, SERVICE), EndpointsController()
    controller.run(api.world, api.now)
    api.merge(f"{PODS}/web-0001", {"metadata": {"labels": {"app": "new", "more": "x"}}})
    api.merge(f"{SERVICES}/web", {"spec": {"selector": {"app": "new", "more": "x"}}})
    controller.run(api.world, api.wait(seconds=1))
    assert sizes(api) == [1]
    api.merge(f"{PODS}/web-0002", {"metadata": {"labels": {"app": "new", "more": "x"}}})
    controller.run(api.world, api.wait(seconds=1))
    assert sizes(api) == [2]
    api.merge(f"{SERVICES}/web", {"spec": {"selector": None}})
    before = api.world.version
    turn(api, "web-0001", "False")
    controller.run(api.world, api.wait(seconds=1))
    assert api.world.version == before + 1


def test_a_node_that_comes_brings_its_pods() -> None:
    api, controller = with_pods(2, SERVICE), EndpointsController()
    api.delete("/api/v1/nodes/one")
    controller.run(api.world, api.now)
    assert sizes(api) == [0]
    api.post("/api/v1/nodes", {"metadata": {"name": "one"}})
    controller.run(api.world, api.wait(seconds=1))
    assert sizes(api) == [2]


def test_a_namespace_that_goes_takes_them_along() -> None:
    api, controller = Api(), EndpointsController()
    api.post("/api/v1/namespaces", {"metadata": {"name": "shop"}})
    api.post("/api/v1/namespaces/shop/services", SERVICE)
    controller.run(api.world, api.now)
    api.delete("/api/v1/namespaces/shop")
    for _ in range(3):
        controller.run(api.world, api.now)
        NamespaceController().run(api.world, api.wait(seconds=20))
    assert "shop" not in api.names("/api/v1/namespaces")


def test_without_services_nothing_is_written() -> None:
    api, controller = with_pods(3), EndpointsController()
    controller.run(api.world, api.now)
    turn(api, "web-0001", "False")
    before = api.world.version
    assert controller.run(api.world, api.now) is None
    assert api.world.version == before
