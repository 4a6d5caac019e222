"""delete: grace of pods (D.13), finalizers, preconditions, collections."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.times import format_time
from tests.world.api_client import CONFIG_MAPS, PODS, Api, config_map, pod

# id: (node, phase, spec grace, option) -> grace the pod gets, None if removed immediately
GRACE = {
    "running, spec's own": ("n1", "Running", 45, None, 45),
    "running, default": ("n1", "Running", None, None, 30),
    "option wins": ("n1", "Running", 45, 5, 5),
    "option zero": ("n1", "Running", 45, 0, None),
    "option negative": ("n1", "Running", 45, -3, 1),
    "spec negative": ("n1", "Running", -7, None, 1),
    "unscheduled": ("", "Pending", 45, None, None),
    "unscheduled, option": ("", "Pending", 45, 20, None),
    "succeeded": ("n1", "Succeeded", 45, None, None),
    "failed": ("n1", "Failed", 45, None, None),
}


@pytest.mark.parametrize(("node", "phase", "own", "option", "grace"), GRACE.values(), ids=GRACE)
def test_grace(node: str, phase: str, own: Any, option: Any, grace: Any) -> None:
    api, sent = Api(), pod("p", node)
    if own is not None:
        sent["spec"]["terminationGracePeriodSeconds"] = own
    api.post(PODS, sent)
    api.merge(PODS + "/p/status", {"status": {"phase": phase}})
    api.delete(PODS + "/p", None if option is None else {"gracePeriodSeconds": option})
    if grace is None:
        assert api.names(PODS) == []
        return
    meta = api.get(PODS + "/p")["metadata"]
    ends = api.wait(seconds=grace)
    assert meta["deletionGracePeriodSeconds"] == grace
    assert meta["deletionTimestamp"] == format_time(ends)
    assert meta["generation"] == 2


def test_a_second_delete_only_shortens() -> None:
    api = Api()
    api.post(PODS, pod("p", "n1"))
    asked = [20, 50, 10, None]
    graces = []
    for seconds in asked:
        body = None if seconds is None else {"gracePeriodSeconds": seconds}
        meta = api.delete(PODS + "/p", body)["metadata"]
        graces.append((meta["deletionGracePeriodSeconds"], meta["deletionTimestamp"][-3:]))
        api.wait(seconds=1)
    assert graces == [(20, "20Z"), (20, "20Z"), (10, "10Z"), (10, "10Z")]


# What watchers see, id: (node, grace of an earlier delete, option) -> deletions seen.
# As kube-apiserver 1.34 answers: a pod is marked in a write of its own, others just go.
SEEN = {
    "running, no grace": ("n1", None, 0, ["MODIFIED", "DELETED"]),
    "unscheduled": ("", None, None, ["MODIFIED", "DELETED"]),
    "grace cut short": ("n1", 30, 0, ["MODIFIED", "MODIFIED", "DELETED"]),
}


@pytest.mark.parametrize(("node", "earlier", "option", "seen"), SEEN.values(), ids=SEEN)
def test_a_pod_is_marked_before_it_goes(node: str, earlier: Any, option: Any, seen: Any) -> None:
    api = Api()
    api.post(PODS, pod("p", node))
    _, since = api.watch(PODS)
    if earlier is not None:
        api.delete(PODS + "/p", {"gracePeriodSeconds": earlier})
    body = None if option is None else {"gracePeriodSeconds": option}
    answer = api.delete(PODS + "/p", body)["metadata"]
    events, position = api.watch(PODS, since)
    assert [event.type for event in events] == seen
    last = [event.object["metadata"] for event in events[-2:]]
    assert {m["deletionTimestamp"] for m in last} == {answer["deletionTimestamp"]}
    assert {(m["deletionGracePeriodSeconds"], m["generation"]) for m in last} == {(0, 2)}
    assert answer["resourceVersion"] == last[1]["resourceVersion"] == str(position)
    assert int(last[0]["resourceVersion"]) == position - 1


def test_what_is_no_pod_goes_unmarked() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a"))
    _, since = api.watch(CONFIG_MAPS)
    api.delete(CONFIG_MAPS + "/a")
    (event,), _ = api.watch(CONFIG_MAPS, since)
    assert (event.type, event.object["metadata"].get("deletionTimestamp")) == ("DELETED", None)


def test_finalizers_hold_and_release() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a", {"x": "1"}, finalizers=["e.io/one", "e.io/two"]))
    held = api.delete(CONFIG_MAPS + "/a")
    assert held["metadata"]["deletionTimestamp"] == format_time(api.now)
    assert api.code("POST", CONFIG_MAPS, config_map("a")) == 409
    api.merge(CONFIG_MAPS + "/a", {"data": {"x": "2"}})
    api.merge(CONFIG_MAPS + "/a", {"metadata": {"finalizers": ["e.io/two"]}})
    assert api.names(CONFIG_MAPS) == ["a"]
    api.merge(CONFIG_MAPS + "/a", {"metadata": {"finalizers": None}})
    assert api.names(CONFIG_MAPS) == []


def test_a_pod_with_a_finalizer_waits_for_its_grace_too() -> None:
    api = Api()
    api.post(PODS, pod("p", "n1", finalizers=["e.io/x"]))
    api.delete(PODS + "/p")
    api.merge(PODS + "/p", {"metadata": {"finalizers": None}})
    assert api.names(PODS) == ["p"], "its grace runs"
    api.delete(PODS + "/p", {"gracePeriodSeconds": 0})
    assert api.names(PODS) == []


def test_the_deleted_event_carries_the_version_of_the_deletion() -> None:
    """WATCH-10."""
    api = Api()
    api.post(CONFIG_MAPS, config_map("a", {"x": "1"}))
    since = api.world.version
    api.delete(CONFIG_MAPS + "/a")
    (event,), _ = api.watch(CONFIG_MAPS, since)
    assert (event.type, event.object["data"]) == ("DELETED", {"x": "1"})
    assert int(event.object["metadata"]["resourceVersion"]) == api.world.version > since


def test_collections_go_by_selector() -> None:
    api = Api()
    for name, tier in (("a", "web"), ("b", "db"), ("c", "web")):
        api.post(CONFIG_MAPS, config_map(name, labels={"tier": tier}))
    gone = api.delete(CONFIG_MAPS + "?labelSelector=tier%3Dweb")
    assert [item["metadata"]["name"] for item in gone["items"]] == ["a", "c"]
    assert api.names(CONFIG_MAPS) == ["b"]


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
def test_some_namespaces_stay(name: str) -> None:
    code, body = Api().answer("DELETE", f"/api/v1/namespaces/{name}")
    assert (code, body["message"].endswith("this namespace may not be deleted")) == (403, True)


def test_a_wrong_body_deletes_nothing() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a"))
    for body in ({"kind": "ConfigMap"}, [1], {"gracePeriodSeconds": "soon"}):
        assert api.code("DELETE", CONFIG_MAPS + "/a", body) == 400
    assert api.names(CONFIG_MAPS) == ["a"]
