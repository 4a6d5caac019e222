"""Namespaces: born with a service account, emptied in order, gone when nothing holds them."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from gitkruise.world.controllers.event_ttl import EVENT_TTL, EventExpiry
from gitkruise.world.controllers.namespace import NamespaceController
from gitkruise.world.store.strategies import NAMESPACE
from tests.world.api_client import Api, config_map, pod
from tests.worlds import Lab, budget, cloneset

NAMESPACES = "/api/v1/namespaces"
SHOP = NAMESPACES + "/shop"


def shop() -> Api:
    api = Api()
    api.post(NAMESPACES, {"metadata": {"name": "shop"}})
    return api


def conditions(api: Api) -> dict[str, Any]:
    listed = api.get(SHOP)["status"]["conditions"]
    return {c["type"]: c["message"] for c in listed if c["status"] == "True"}


def test_the_first_namespaces_are_there() -> None:
    api = Api()
    assert api.names(NAMESPACES) == ["default", "kube-node-lease", "kube-public", "kube-system"]
    accounts = api.get("/api/v1/serviceaccounts")["items"]
    assert [a["metadata"]["namespace"] for a in accounts] == api.names(NAMESPACES)


def test_a_new_namespace_is_labelled_held_and_active() -> None:
    namespace = shop().get(SHOP)
    assert namespace["metadata"]["labels"] == {"kubernetes.io/metadata.name": "shop"}
    assert namespace["spec"] == {"finalizers": ["kubernetes"]}
    assert namespace["status"] == {"phase": "Active"}


def test_the_label_with_its_name_comes_back() -> None:
    """It is a default: an applier that named it once and does so no more does not lose it."""
    api = shop()
    for labels in ({"kubernetes.io/metadata.name": "shop", "a": "1"}, {"a": "2"}):
        meta = {"name": "shop", "labels": labels}
        api.apply(SHOP, {"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    api.merge(SHOP, {"metadata": {"labels": {"kubernetes.io/metadata.name": None}}})
    labels = api.get(SHOP)["metadata"]["labels"]
    assert labels == {"a": "2", "kubernetes.io/metadata.name": "shop"}


def test_an_empty_namespace_goes_at_once() -> None:
    api = shop()
    assert api.delete(SHOP)["status"]["phase"] == "Terminating"
    assert NamespaceController().run(api.world, api.now) is None
    assert "shop" not in api.names(NAMESPACES)


def test_nothing_is_created_while_it_goes() -> None:
    api = shop()
    api.delete(SHOP)
    code, body = api.answer("POST", SHOP + "/configmaps", config_map("late"))
    assert (code, body["details"]["causes"][0]["reason"]) == (403, "NamespaceTerminating")


def test_the_initial_delay_is_waited() -> None:
    api, controller = shop(), NamespaceController(delay=timedelta(seconds=5))
    api.delete(SHOP)
    due = controller.run(api.world, api.now)
    assert due == api.now + timedelta(seconds=5)
    assert controller.run(api.world, due) is None
    assert "shop" not in api.names(NAMESPACES)


def test_pods_go_first_and_are_waited_for() -> None:
    api, controller = shop(), NamespaceController()
    api.post(SHOP + "/pods", pod("p", "n1"))
    api.post(SHOP + "/configmaps", config_map("c"))
    api.delete(SHOP)
    due = controller.run(api.world, api.now)
    assert due == api.now + timedelta(seconds=16), "half the grace of 30 s and a second"
    assert api.names(SHOP + "/configmaps") == ["c"], "its pods may still need it"
    remaining = "Some resources are remaining: pods. has 1 resource instances"
    assert conditions(api) == {"NamespaceContentRemaining": remaining}
    api.delete(SHOP + "/pods/p", {"gracePeriodSeconds": 0})
    assert controller.run(api.world, due) is None
    assert "shop" not in api.names(NAMESPACES)


def test_finalizers_inside_are_reported_and_waited_for() -> None:
    api, controller = shop(), NamespaceController()
    api.post(SHOP + "/configmaps", config_map("c", finalizers=["e.io/x"]))
    api.delete(SHOP)
    assert controller.run(api.world, api.now) == api.now + timedelta(seconds=15)
    messages = conditions(api)
    assert messages["NamespaceFinalizersRemaining"].endswith("e.io/x in 1 resource instances")
    before = api.world.version
    controller.run(api.world, api.wait(seconds=15))
    assert api.world.version == before, "what was said already is not written again"
    api.merge(SHOP + "/configmaps/c", {"metadata": {"finalizers": None}})
    controller.run(api.world, api.wait(seconds=15))
    assert "shop" not in api.names(NAMESPACES)


def test_a_budget_goes_with_the_pods_that_it_guards() -> None:
    lab = Lab()
    lab.apply(cloneset(replicas=2))
    lab.apply(budget(maxUnavailable=0))
    lab.run(60)
    lab.delete(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "namespace": ""}}
    )
    NamespaceController().run(lab.world, lab.now)
    (space,) = (one for one in lab.world.objects(NAMESPACE) if one["metadata"]["name"] == "shop")
    messages = {c["type"]: c["message"] for c in space["status"]["conditions"]}
    failed = messages["NamespaceDeletionContentFailure"]
    assert failed.startswith("Failed to delete all resource types, 1 remaining: "), "of pods"
    lab.run(120)
    assert "shop" not in {one["metadata"]["name"] for one in lab.world.objects(NAMESPACE)}


def test_events_expire_after_their_time() -> None:
    api, expiry = Api(), EventExpiry()
    events = "/api/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {}, "reason": "Scheduled"}
    api.post(events, event)
    due = expiry.run(api.world, api.now)
    assert due == api.now + EVENT_TTL
    expiry.run(api.world, due - timedelta(seconds=1))
    assert api.names(events) == ["e"]
    assert expiry.run(api.world, due) is None
    assert api.names(events) == []


def test_an_event_of_long_ago_lives_as_long_as_any_other() -> None:
    api, expiry = Api(), EventExpiry()
    past = {"lastTimestamp": "2020-01-01T00:00:00Z", "involvedObject": {}}
    api.post("/api/v1/namespaces/default/events", {"metadata": {"name": "e"}, **past})
    assert expiry.run(api.world, api.now) == api.now + EVENT_TTL
