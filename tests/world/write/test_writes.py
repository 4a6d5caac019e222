"""create, update, patch: names, locks, generation, field validation, several versions of a kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from gitkruise.admission.rules.request import AdmissionRequest
from gitkruise.errors import InvalidObject, Problem, invalid_object
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import APPLY_PATCH, MERGE_PATCH, STRATEGIC_PATCH
from gitkruise.world.api.cluster import World
from tests.world.api_client import (
    CONFIG_MAPS,
    CRDS,
    PODS,
    WIDGETS,
    Api,
    config_map,
    key,
    pod,
    recorded,
)

ALPHA = "/apis/apps.kruise.io/v1alpha1/namespaces/default/clonesets"
BETA = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets"
SAFE = set("bcdfghjklmnpqrstvwxz2456789")


def cloneset(**spec: Any) -> dict[str, Any]:
    labels = {"app": "web"}
    template = {
        "metadata": {"labels": labels},
        "spec": {"containers": [{"name": "c", "image": "i"}]},
    }
    return {
        "apiVersion": "apps.kruise.io/v1alpha1",
        "kind": "CloneSet",
        "metadata": {"name": "w"},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": template, **spec},
    }


def test_the_same_history_gives_the_same_names_and_uids() -> None:
    def history(seed: int) -> list[tuple[str, str]]:
        api = Api(World(load_catalog(), seed=seed))
        made = [api.post(PODS, pod("", generateName="web-")) for _ in range(5)]
        return [(obj["metadata"]["name"], obj["metadata"]["uid"]) for obj in made]

    assert history(1) == history(1)
    assert set(history(1)).isdisjoint(history(2))
    for name, uid in history(1):
        assert name.startswith("web-")
        assert set(name[4:]) <= SAFE
        assert len(name) == 9
        assert [len(part) for part in uid.split("-")] == [8, 4, 4, 4, 12]
    assert len({uid for _, uid in history(1)}) == 5


def test_generated_names_of_long_bases_fit_a_label() -> None:
    made = Api().post(PODS, pod("", generateName="x" * 70))
    assert len(made["metadata"]["name"]) == 63


MANY = [f"e.io/{index}" for index in range(10_000)]
OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "p"}
TWO = [{**OWNER, "uid": uid, "controller": True} for uid in "pq"]
NAMES = {  # kind, name -> accepted
    "pod": (PODS, pod("web.1"), 201),
    "pod upper": (PODS, pod("Web"), 422),
    "pod underscore": (PODS, pod("a_b"), 422),
    "pod long": (PODS, pod("a" * 254), 422),
    "pod dash": (PODS, pod("a-"), 422),
    "namespace dot": ("/api/v1/namespaces", {"metadata": {"name": "a.b"}}, 422),
    "namespace long": ("/api/v1/namespaces", {"metadata": {"name": "a" * 64}}, 422),
    "role colon": (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "system:x"}}, 201,
    ),
    "role slash": (
        "/apis/rbac.authorization.k8s.io/v1/clusterroles", {"metadata": {"name": "a/b"}}, 422,
    ),
    "no name": (PODS, pod(""), 422),
    "label key": (CONFIG_MAPS, config_map("a", labels={"a b": "c"}), 422),
    "label value": (CONFIG_MAPS, config_map("a", labels={"a": "-"}), 422),
    "label prefix": (CONFIG_MAPS, config_map("a", labels={"e.io/a": "c"}), 201),
    "label prefix bad": (CONFIG_MAPS, config_map("a", labels={"E_/a": "c"}), 422),
    "annotations too large": (CONFIG_MAPS, config_map("a", annotations={"a": "x" * 300_000}), 422),
    "finalizer": (CONFIG_MAPS, config_map("a", finalizers=["plain"]), 422),
    "finalizers 10 000": (CONFIG_MAPS, config_map("a", finalizers=MANY), 422),
    "owner without uid": (CONFIG_MAPS, config_map("a", ownerReferences=[OWNER]), 422),
    "two controllers": (CONFIG_MAPS, config_map("a", ownerReferences=TWO), 422),
}  # fmt: skip


@pytest.mark.parametrize(("url", "body", "code"), NAMES.values(), ids=NAMES)
def test_metadata_is_checked(url: str, body: Any, code: int) -> None:
    got, answer = Api().answer("POST", url, body)
    assert got == code, answer


def test_server_fields_are_the_servers() -> None:
    api = Api()
    made = api.post(CONFIG_MAPS, config_map("a", creationTimestamp=None, generation=9, uid="mine"))
    assert made["metadata"]["uid"] != "mine"
    assert "generation" not in made["metadata"]
    after = api.merge(
        CONFIG_MAPS + "/a", {"metadata": {"creationTimestamp": None, "generation": 7}}
    )
    assert after == made
    for name, value in {"uid": "x", "deletionTimestamp": "2020-01-01T00:00:00Z"}.items():
        code = api.code("PATCH", CONFIG_MAPS + "/a", {"metadata": {name: value}}, MERGE_PATCH)
        assert code == 422


UNKNOWN = {  # fieldValidation -> (status, warnings)
    "Strict": (400, []),
    "Warn": (201, ['unknown field "dta"', 'unknown field "metadata.lables"']),
    "": (201, ['unknown field "dta"', 'unknown field "metadata.lables"']),
    "Ignore": (201, []),
}


@pytest.mark.parametrize(("mode", "wanted"), UNKNOWN.items())
def test_unknown_fields(mode: str, wanted: tuple[int, list[str]]) -> None:
    api = Api()
    code, warnings = wanted
    sent = {**config_map("a", {"x": "1"}, lables={"a": "b"}), "dta": 1}
    url = f"{CONFIG_MAPS}?fieldValidation={mode}"
    assert api.code("POST", url + "&dryRun=All", sent) == code
    if code == 201:
        reply = api.reply("POST", url, sent)
        assert sorted(reply.warnings) == warnings
        assert "dta" not in reply.body
        assert "lables" not in reply.body["metadata"]


def test_strategic_patches_are_for_built_in_kinds() -> None:
    api = Api()
    api.post(CRDS, recorded("widget.json"))
    sent = {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    api.post(WIDGETS, sent)
    patch = {"spec": {"replicas": 1}}
    assert api.code("PATCH", WIDGETS + "/w", patch, STRATEGIC_PATCH) == 415
    assert api.code("PATCH", WIDGETS + "/w", patch, "text/plain") == 415
    assert api.code("PATCH", WIDGETS + "/w", patch, MERGE_PATCH) == 200


def test_a_put_makes_leases_and_nothing_else() -> None:
    leases = "/apis/coordination.k8s.io/v1/namespaces/default/leases"
    api = Api()
    assert api.code("PUT", leases + "/l", {"metadata": {"name": "l"}}) == 201
    assert api.code("PUT", CONFIG_MAPS + "/l", config_map("l")) == 404


def test_kinds_of_several_versions_are_one_object() -> None:
    api = Api()
    api.post(ALPHA, cloneset())
    beta = api.get(BETA + "/w")
    assert beta["apiVersion"] == "apps.kruise.io/v1beta1"
    api.merge(BETA + "/w", {"spec": {"replicas": 5}})
    alpha = api.get(ALPHA + "/w")
    assert (alpha["apiVersion"], alpha["spec"]["replicas"]) == ("apps.kruise.io/v1alpha1", 5)
    assert [item["apiVersion"] for item in api.get(ALPHA)["items"]] == [alpha["apiVersion"]]
    (event,), _ = api.watch(ALPHA)
    assert event.object["apiVersion"] == alpha["apiVersion"]
    stored = api.world.get(key("apps.kruise.io", "CloneSet", "w"))
    assert stored is not None
    assert stored["apiVersion"] == "apps.kruise.io/v1beta1"
    assert api.world.records_since(api.world.version - 1)[0].kind.version == "v1beta1"


def test_a_custom_resource_needs_a_version_for_put() -> None:
    api = Api()
    made = api.post(ALPHA, cloneset())
    assert api.code("PUT", ALPHA + "/w", cloneset()) == 422
    assert api.code("PUT", ALPHA + "/w", {**made, "spec": {**made["spec"], "replicas": 9}}) == 200
    assert api.code("PUT", ALPHA + "/w", {**made, "spec": {**made["spec"], "replicas": 8}}) == 409


def test_admission_mutates_and_refuses() -> None:
    seen = []

    def admit(request: AdmissionRequest) -> Obj | None:
        seen.append((request.operation, request.key.name, request.subresource, request.dry_run))
        if request.obj is None:
            return None
        if (request.obj.get("data") or {}).get("bad"):
            problem = Problem(("data", "bad"), "FieldValueForbidden", "Forbidden: no")
            raise invalid_object("ConfigMap", "", request.key.name, [problem])
        return {**request.obj, "data": {"stamp": "1", **(request.obj.get("data") or {})}}

    api = Api(
        World(load_catalog(), admit=lambda r: admit(r) if r.key.kind == "ConfigMap" else r.obj)
    )
    assert api.post(CONFIG_MAPS, config_map("a", {"x": "1"}))["data"] == {"stamp": "1", "x": "1"}
    before = api.world.version
    with pytest.raises(InvalidObject):
        api.merge(CONFIG_MAPS + "/a", {"data": {"bad": "1"}})
    assert api.code("POST", CONFIG_MAPS + "?dryRun=All", config_map("b")) == 201
    assert api.world.version == before
    api.delete(CONFIG_MAPS + "/a")
    assert seen == [
        ("CREATE", "a", "", False),
        ("UPDATE", "a", "", False),
        ("CREATE", "b", "", True),
        ("DELETE", "a", "", False),
    ]


def test_definitions_come_and_go_with_their_objects() -> None:
    api = Api()
    assert api.code("GET", WIDGETS) == 404
    made = api.post(CRDS, recorded("widget.json"))
    assert {c["type"] for c in made["status"]["conditions"] if c["status"] == "True"} == {
        "Established", "NamesAccepted",
    }  # fmt: skip
    assert made["status"]["storedVersions"] == ["v1"]
    widget = {"apiVersion": "ex.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {}}
    api.post(WIDGETS, widget)
    held = {**widget, "metadata": {"name": "held", "finalizers": ["e.io/x"]}}
    api.post(WIDGETS, held)
    twin = World(load_catalog())
    twin.restore(api.world.state.everything(), api.world.version)
    assert Api(twin).names(WIDGETS) == ["held", "w"], "a restored cluster serves what was defined"
    api.delete(CRDS + "/widgets.ex.io")
    assert api.names(WIDGETS) == ["held"]
    api.merge(WIDGETS + "/held", {"metadata": {"finalizers": None}})
    assert api.code("GET", WIDGETS) == 404
    assert api.code("GET", CRDS + "/widgets.ex.io") == 404


BAD_DEFINITIONS: dict[str, Callable[[Any], Any]] = {
    "name": lambda crd: {**crd, "metadata": {"name": "other.ex.io"}},
    "scope": lambda crd: {**crd, "spec": {**crd["spec"], "scope": "Galaxy"}},
    "no versions": lambda crd: {**crd, "spec": {**crd["spec"], "versions": []}},
}


@pytest.mark.parametrize("change", BAD_DEFINITIONS.values(), ids=BAD_DEFINITIONS)
def test_b_a26_bad_definitions(change: Any) -> None:
    api = Api()
    assert api.code("POST", CRDS, change(recorded("widget.json"))) == 422
    assert api.code("GET", WIDGETS) == 404


def test_whoami_and_can_i() -> None:
    api, group = Api(), "authentication.k8s.io"
    who = api.post(f"/apis/{group}/v1/selfsubjectreviews", {"kind": "SelfSubjectReview"})
    assert who["status"]["userInfo"]["username"] == "admin"
    url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    spec = {"resourceAttributes": {"verb": "delete", "resource": "pods"}}
    assert api.post(url, {"spec": spec})["status"] == {"allowed": True}
    assert api.code("GET", url + "/x") == 405
    before = api.world.version
    assert api.post(f"/apis/{group}/v1/tokenreviews", {"spec": {"token": "x"}})["status"]["error"]
    assert api.world.version == before


def test_an_untracked_object_stays_untracked_until_applied() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("a", {"x": "1"}))
    changes: list[dict[str, Any]] = [{"metadata": {"managedFields": [{}]}}, {"data": {"y": "2"}}]
    for change in changes:
        assert "managedFields" not in api.merge(CONFIG_MAPS + "/a", change)["metadata"]
    url = CONFIG_MAPS + "/a?fieldManager=gk"
    after = api.send("PATCH", url, config_map("a", {"x": "1"}), APPLY_PATCH)
    managers = [entry["manager"] for entry in after["metadata"]["managedFields"]]
    assert managers == ["gk", "before-first-apply"]
