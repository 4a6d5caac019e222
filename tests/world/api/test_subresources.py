"""status, scale, binding, eviction, resize: what each may change, and what it refuses."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.requests import APPLY_PATCH
from tests.world.api_client import CRDS, PODS, WIDGETS, Api, pod, recorded

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
BUDGETS = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"


def widgets() -> Api:
    api = Api()
    api.post(CRDS, recorded("widget.json"))
    api.post(WIDGETS, widget({"replicas": 3}))
    return api


def widget(spec: Any, **more: Any) -> dict[str, Any]:
    return {
        "apiVersion": "ex.io/v1",
        "kind": "Widget",
        "metadata": {"name": "w"},
        "spec": spec,
        **more,
    }


def deployments() -> Api:
    api, labels = Api(), {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    spec = {"replicas": 3, "selector": {"matchLabels": labels}, "template": template}
    api.post(DEPLOYMENTS, {"metadata": {"name": "w"}, "spec": spec})
    return api


BOTH = {"custom": (widgets, WIDGETS), "built-in": (deployments, DEPLOYMENTS)}


@pytest.mark.parametrize(("make", "url"), BOTH.values(), ids=BOTH)
def test_store_7_spec_and_status_are_apart(make: Any, url: str) -> None:
    api = make()
    both = {"spec": {"replicas": 9}, "status": {"replicas": 2}}
    after = api.merge(url + "/w/status", both)
    assert (after["spec"]["replicas"], after["status"]["replicas"]) == (3, 2)
    assert after["metadata"]["generation"] == 1
    after = api.merge(url + "/w", {"spec": {"replicas": 9}, "status": {"replicas": 7}})
    assert (after["spec"]["replicas"], after["status"]["replicas"]) == (9, 2)
    assert after["metadata"]["generation"] == 2
    after = api.merge(url + "/w", {"metadata": {"labels": {"a": "b"}}})
    assert after["metadata"]["generation"] == 2


def test_a_new_object_has_no_status_of_its_own() -> None:
    api = widgets()
    api.delete(WIDGETS + "/w")
    made = api.post(WIDGETS, widget({}, status={"replicas": 4}))
    assert "status" not in made


@pytest.mark.parametrize(("make", "url"), BOTH.values(), ids=BOTH)
def test_scale(make: Any, url: str) -> None:
    api = make()
    scale = api.get(url + "/w/scale")
    assert (scale["kind"], scale["apiVersion"]) == ("Scale", "autoscaling/v1")
    assert (scale["spec"], scale["status"]["replicas"]) == ({"replicas": 3}, 0)
    api.merge(url + "/w/scale", {"spec": {"replicas": 5}})
    api.send("PUT", url + "/w/scale", {"metadata": {"name": "w"}, "spec": {"replicas": 6}})
    assert api.get(url + "/w")["spec"]["replicas"] == 6
    stale = {**scale, "spec": {"replicas": 1}}
    assert api.code("PUT", url + "/w/scale", stale) == 409
    negative = {"spec": {"replicas": -1}}
    assert api.code("PATCH", url + "/w/scale", negative, "application/merge-patch+json") == 422
    managers = api.get(url + "/w")["metadata"]["managedFields"]
    assert [m["fieldsV1"] for m in managers if m.get("subresource") == "scale"] == [
        {"f:spec": {"f:replicas": {}}}
    ]


def test_an_applied_scale_owns_the_replicas() -> None:
    api, url = deployments(), DEPLOYMENTS + "/w/scale"
    head = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "w"}}
    wanted = {**head, "spec": {"replicas": 5}}
    assert api.code("PATCH", url + "?fieldManager=hpa", wanted, APPLY_PATCH) == 409
    assert api.apply(url, wanted, "hpa", force=True)["spec"] == {"replicas": 5}
    workload = api.get(DEPLOYMENTS + "/w")
    assert workload["spec"]["replicas"] == 5
    (mine,) = (m for m in workload["metadata"]["managedFields"] if m["manager"] == "hpa")
    assert (mine["operation"], mine["subresource"]) == ("Apply", "scale")
    assert mine["fieldsV1"] == {"f:spec": {"f:replicas": {}}}


def test_a_deployment_shows_its_selector() -> None:
    assert deployments().get(DEPLOYMENTS + "/w/scale")["status"]["selector"] == "app=web"


def bound(api: Api, node: str = "n1", url: str = PODS + "/p/binding") -> int:
    target = {"kind": "Node", "name": node}
    return api.code("POST", url, {"metadata": {"name": "p"}, "target": target})


def test_binding() -> None:
    api = Api()
    api.post(PODS, pod("p"))
    assert bound(api) == 201
    after = api.get(PODS + "/p")
    (condition,) = after["status"]["conditions"]
    assert (after["spec"]["nodeName"], condition["type"], condition["status"]) == (
        "n1", "PodScheduled", "True",
    )  # fmt: skip
    assert after["metadata"]["generation"] == 1
    assert bound(api, "n2") == 409
    assert bound(api, "") == 422


def test_binding_through_the_collection() -> None:
    api = Api()
    api.post(PODS, pod("p"))
    assert bound(api, url="/api/v1/namespaces/default/bindings") == 201
    assert api.get(PODS + "/p")["spec"]["nodeName"] == "n1"


def test_gated_pods_are_not_bound() -> None:
    api, gated = Api(), pod("p")
    gated["spec"]["schedulingGates"] = [{"name": "wait"}]
    api.post(PODS, gated)
    assert bound(api) == 409


def guarded(status: dict[str, Any], *, ready: str = "True") -> Api:
    api, labels = Api(), {"app": "web"}
    api.post(PODS, pod("p", "n1", labels=labels))
    condition = {"type": "Ready", "status": ready}
    api.merge(PODS + "/p/status", {"status": {"phase": "Running", "conditions": [condition]}})
    spec = {"minAvailable": 1, "selector": {"matchLabels": labels}}
    api.post(BUDGETS, {"metadata": {"name": "b"}, "spec": spec})
    full = {"observedGeneration": 1, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1}
    api.merge(BUDGETS + "/b/status", {"status": {**full, "disruptionsAllowed": 0, **status}})
    return api


EVICTIONS = {  # what the budget says -> (status of the eviction, disruptions left)
    "none allowed": ({}, "True", 429, 0),
    "one allowed": ({"disruptionsAllowed": 1}, "True", 201, 0),
    "not observed yet": ({"disruptionsAllowed": 1, "observedGeneration": 0}, "True", 429, 1),
    "not ready, others are": ({}, "False", 201, 0),
    "not ready, too few are": ({"currentHealthy": 0}, "False", 429, 0),
}


@pytest.mark.parametrize(("status", "ready", "code", "left"), EVICTIONS.values(), ids=EVICTIONS)
def test_eviction(status: Any, ready: str, code: int, left: int) -> None:
    api = guarded(status, ready=ready)
    got, answer = api.answer("POST", PODS + "/p/eviction", {"metadata": {"name": "p"}})
    assert got == code, answer
    assert ("deletionTimestamp" in api.get(PODS + "/p")["metadata"]) == (code == 201)
    assert api.get(BUDGETS + "/b")["status"]["disruptionsAllowed"] == left
    if code == 429:
        waits = status.get("observedGeneration") == 0  # for the budget's controller
        assert answer["details"].get("retryAfterSeconds") == (10 if waits else None)
        assert answer["details"]["causes"][0]["reason"] == "DisruptionBudget"


@pytest.mark.parametrize(
    ("query", "options"), [("?dryRun=All", {}), ("", {"deleteOptions": {"dryRun": ["All"]}})]
)
def test_a_dry_eviction_spends_nothing(query: str, options: dict[str, Any]) -> None:
    api = guarded({"disruptionsAllowed": 1})
    before = api.get(BUDGETS + "/b"), api.get(PODS + "/p")
    body = {"metadata": {"name": "p"}, **options}
    assert api.code("POST", PODS + "/p/eviction" + query, body) == 201
    assert (api.get(BUDGETS + "/b"), api.get(PODS + "/p")) == before


def test_an_evicted_pod_says_so() -> None:
    api = guarded({"disruptionsAllowed": 1})
    body = {"metadata": {"name": "p"}}
    assert api.code("POST", PODS + "/p/eviction", body) == 201
    evicted = api.get(PODS + "/p")
    last = evicted["status"]["conditions"][-1]
    assert (last["type"], last["reason"]) == ("DisruptionTarget", "EvictionByEvictionAPI")
    assert api.code("POST", PODS + "/p/eviction", body) == 201
    assert api.get(PODS + "/p") == evicted, "it went already"


def test_eviction_without_a_budget_is_a_delete() -> None:
    api = Api()
    api.post(PODS, pod("p"))
    assert api.code("POST", PODS + "/p/eviction", {"metadata": {"name": "p"}}) == 201
    assert api.names(PODS) == []


def test_resize_changes_resources_alone() -> None:
    api = Api()
    api.post(PODS, pod("p", "n1"))
    container = {"name": "main", "image": "other", "resources": {"requests": {"cpu": "1"}}}
    after = api.strategic(PODS + "/p/resize", {"spec": {"containers": [container]}})
    (main,) = after["spec"]["containers"]
    assert (main["image"], main["resources"]) == ("web:1", {"requests": {"cpu": "1"}})
    assert after["metadata"]["generation"] == 2


def test_pod_status_may_annotate_but_not_disown() -> None:
    api = Api()
    ref = {"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u"}
    api.post(PODS, pod("p", "n1", ownerReferences=[ref]))
    change = {"annotations": {"a": "b"}, "ownerReferences": None}
    meta = api.merge(PODS + "/p/status", {"metadata": change})["metadata"]
    assert (meta["annotations"], meta["ownerReferences"]) == ({"a": "b"}, [ref])


QOS = {
    "nothing": ({}, "BestEffort"),
    "requests": ({"requests": {"cpu": "1"}}, "Burstable"),
    "limits of both": ({"limits": {"cpu": "1", "memory": "1Gi"}}, "Guaranteed"),
    "limits above requests": (
        {"limits": {"cpu": "2", "memory": "1Gi"}, "requests": {"cpu": "1"}}, "Burstable",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("resources", "qos"), QOS.values(), ids=QOS)
def test_new_pods_are_pending_and_classed(resources: Any, qos: str) -> None:
    api, sent = Api(), pod("p")
    sent["spec"]["containers"][0]["resources"] = resources
    assert api.post(PODS, sent)["status"] == {"phase": "Pending", "qosClass": qos}


def test_the_class_of_quality_compares_amounts_and_not_their_spelling() -> None:
    api = Api()
    resources = {"requests": {"cpu": "1", "memory": "1Gi"},
                 "limits": {"cpu": "1000m", "memory": "1024Mi"}}  # fmt: skip
    made = pod("p")
    made["spec"]["containers"][0]["resources"] = resources
    assert api.post(PODS, made)["status"]["qosClass"] == "Guaranteed"
