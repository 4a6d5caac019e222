"""Services get addresses that their names decide, and keep them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal


def service(name: str = "web", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"ports": [{"port": 80}], **spec},
    }


def test_defaults() -> None:
    spec = admitted(service())["spec"]
    address = spec.pop("clusterIP")
    assert address.startswith("10.96.")
    assert spec == {
        "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
        "type": "ClusterIP",
        "sessionAffinity": "None",
        "internalTrafficPolicy": "Cluster",
        "ipFamilyPolicy": "SingleStack",
        "ipFamilies": ["IPv4"],
        "clusterIPs": [address],
    }


@given(st.text(st.characters(codec="ascii", categories=["Ll"]), min_size=1, max_size=20))
def test_the_address_is_the_names_and_free(name: str) -> None:
    first = admitted(service(name))
    assert admitted(service(name)) == first
    beside = admitted(service(name), around=(put(first, ("metadata", "name"), "other"),))
    taken = first["spec"]["clusterIP"]
    assert beside["spec"]["clusterIP"] not in (taken, "10.96.0.1", "10.96.0.0")


def test_node_ports() -> None:
    first = admitted(service(type="NodePort", ports=[{"port": 80, "name": "a"},
                                                     {"port": 81, "name": "b"}]))  # fmt: skip
    ports = [one["nodePort"] for one in first["spec"]["ports"]]
    assert len(set(ports)) == 2
    assert all(30000 <= port <= 32767 for port in ports)
    assert first["spec"]["externalTrafficPolicy"] == "Cluster"
    again = admitted(service(type="NodePort", ports=[{"port": 81}]), first)
    assert again["spec"]["ports"][0]["nodePort"] == ports[1], "an update keeps it"


def test_an_update_keeps_the_address() -> None:
    old = admitted(service(clusterIP="10.96.7.7"))
    assert admitted(service(), old)["spec"]["clusterIP"] == "10.96.7.7"
    assert fields(refusal(service(clusterIP="10.96.7.8"), old)) == {"spec.clusterIPs[0]"}


TAKEN = service(
    "taken", clusterIP="10.96.7.7", type="NodePort", ports=[{"port": 1, "nodePort": 31000}]
)


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"clusterIP": "10.96.7.7", "clusterIPs": ["10.96.7.7"]}, {"spec.clusterIPs"}),
        ({"clusterIP": "10.96.7.8"}, set()),
        ({"clusterIP": "None"}, set()),
        ({"ports": [{"port": 80, "nodePort": 31000}]}, {"spec.ports[0].nodePort"}),
        (
            {"ports": [{"port": 80, "nodePort": 31000, "protocol": "UDP"}]},
            {"spec.ports[0].nodePort"},
        ),
        (
            {"ports": [{"port": p, "name": f"p{p}", "nodePort": 31001} for p in (1, 2)]},
            {"spec.ports[1].nodePort"},
        ),
        (
            {"ports": [{"port": 53, "name": p.lower(), "nodePort": 31001, "protocol": p}
                       for p in ("TCP", "UDP")]},
            set(),
        ),
    ],
)  # fmt: skip
def test_addresses_and_ports_of_other_services_are_refused(
    spec: dict[str, Any], refused: set[str]
) -> None:
    typed = {"type": "NodePort"} if "ports" in spec else {}
    asked = service(**typed, **spec)
    assert fields(refusal(asked, around=(TAKEN,))) == refused


def test_a_damaged_service_stops_no_other() -> None:
    """One that an older program left in the store."""
    bad = service("bad", ports=5)
    ports = [{"port": 80, "nodePort": 31000}]
    assert refusal(service(type="NodePort", ports=ports), around=(bad,)) is None
    assert refusal(service(type="NodePort"), around=(service("bad") | {"spec": "x"},)) is None


def test_an_update_keeps_its_own_address_and_ports() -> None:
    first = admitted(TAKEN)
    other = admitted(service("other", type="NodePort"))
    assert admitted(first, first, around=(first, other)) == first


BALANCED = {"type": "LoadBalancer", "loadBalancerClass": "shop.example/inner"}


@pytest.mark.parametrize(
    ("before", "after", "gone"),
    [
        ({"type": "NodePort"}, {"type": "ClusterIP"}, {"externalTrafficPolicy", "nodePort"}),
        ({"type": "NodePort", "externalIPs": ["10.1.2.3"]}, {"type": "ClusterIP"}, {"nodePort"}),
        (BALANCED, {"type": "NodePort"}, {"allocateLoadBalancerNodePorts", "loadBalancerClass"}),
        (
            {"type": "ClusterIP"},
            {"type": "ExternalName", "externalName": "a.example"},
            {"clusterIP", "clusterIPs", "ipFamilies", "ipFamilyPolicy", "internalTrafficPolicy"},
        ),
    ],
)
def test_another_type_drops_what_it_does_not_take(before: Any, after: Any, gone: set[str]) -> None:
    old = admitted(service(**before))
    new = admitted({**old, "spec": {**old["spec"], **after}}, old)
    (port,) = new["spec"]["ports"]
    was, now = {*old["spec"], *old["spec"]["ports"][0]}, {*new["spec"], *port}
    assert was - now == gone
    assert refusal(new, new) is None


def test_a_balancer_without_node_ports() -> None:
    spec = admitted(service(type="LoadBalancer", allocateLoadBalancerNodePorts=False))["spec"]
    assert "nodePort" not in spec["ports"][0]


def test_no_address_for_external_names_and_headless_services() -> None:
    external = admitted(service(type="ExternalName", externalName="a.example"))["spec"]
    assert "clusterIP" not in external
    assert admitted(service(clusterIP="None", ports=[]))["spec"]["clusterIPs"] == ["None"]


@pytest.mark.parametrize(
    ("spec", "refused"),
    [
        ({"ports": []}, {"spec.ports"}),
        ({"ports": [{"port": 0}]}, {"spec.ports[0].port", "spec.ports[0].targetPort"}),
        ({"ports": [{"port": 1}, {"port": 2}]}, {"spec.ports[0].name", "spec.ports[1].name"}),
        (
            {"ports": [{"port": 1, "name": "a"}, {"port": 1, "name": "a"}]},
            {"spec.ports[1].name", "spec.ports[1]"},
        ),
        ({"ports": [{"port": 1, "protocol": "HTTP"}]}, {"spec.ports[0].protocol"}),
        ({"ports": [{"port": 1, "targetPort": "Web"}]}, {"spec.ports[0].targetPort"}),
        (
            {"type": "NodePort", "ports": [{"port": 1, "nodePort": 80}]},
            {"spec.ports[0].nodePort"},
        ),
        ({"ports": [{"port": 1, "nodePort": 30080}]}, {"spec.ports[0].nodePort"}),
        ({"externalTrafficPolicy": "Local"}, {"spec.externalTrafficPolicy"}),
        ({"externalTrafficPolicy": "Local", "externalIPs": ["10.1.2.3"]}, set()),
        ({"type": "Wild"}, {"spec.type"}),
        ({"type": "ExternalName"}, {"spec.externalName"}),
        ({"type": "NodePort", "clusterIP": "None"}, {"spec.clusterIPs[0]"}),
        ({"clusterIP": "here"}, {"spec.clusterIPs[0]"}),
        ({"sessionAffinity": "Wild"}, {"spec.sessionAffinity"}),
        ({"selector": {"a b": "c"}}, {"spec.selector"}),
    ],
)
def test_creates(spec: dict[str, Any], refused: set[str]) -> None:
    assert fields(refusal(service(**spec))) == refused
