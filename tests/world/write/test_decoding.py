"""Bodies of the wrong type: refused before anything reads them, as kube-apiserver does."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.requests import JSON, MERGE_PATCH
from tests.world.api_client import CONFIG_MAPS, PODS, Api, config_map, pod

CLONESETS = "/apis/apps.kruise.io/v1beta1/namespaces/default/clonesets"
NODES = "/api/v1/nodes"


@pytest.fixture
def api() -> Api:
    api = Api()
    api.post(CONFIG_MAPS, config_map("here"))
    api.post(PODS, pod("p"))
    api.post(NODES, node())
    return api


def node(**status: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}, "status": status}


def cloneset(**meta: Any) -> dict[str, Any]:
    whole = {"name": "web", **meta}
    return {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "metadata": whole}


BAD_METADATA: list[dict[str, Any]] = [
    {"name": 1.5}, {"name": ["a"]}, {"generateName": 5, "name": ""}, {"labels": "x"},
    {"labels": {"a": 1}}, {"labels": {"a": ["b"]}}, {"annotations": -1}, {"annotations": {"a": {}}},
    {"finalizers": "x"}, {"finalizers": [1]}, {"ownerReferences": {}}, {"ownerReferences": ["x"]},
    {"managedFields": ["x"]}, {"managedFields": [[]]}, {"namespace": {"a": "b"}},
    {"resourceVersion": 5}, {"uid": {}}, {"ownerReferences": [{"uid": 1}]},
]  # fmt: skip


@pytest.mark.parametrize("meta", BAD_METADATA, ids=str)
def test_metadata_are_typed(api: Api, meta: dict[str, Any]) -> None:
    for url, body in ((CONFIG_MAPS, config_map("x")), (CLONESETS, cloneset())):
        wrong = {**body, "metadata": {**body["metadata"], **meta}}
        assert api.code("POST", url, wrong) == 400
    if "name" not in meta and "generateName" not in meta:
        there = f"{CONFIG_MAPS}/here"
        assert api.code("PUT", there, config_map("here", **meta)) == 400
        assert api.code("PATCH", there, {"metadata": meta}, MERGE_PATCH) in (400, 422)


@pytest.mark.parametrize("word", ["apiVersion", "kind"])
def test_version_and_kind_are_texts(api: Api, word: str) -> None:
    assert api.code("POST", CONFIG_MAPS, {**config_map("x"), word: [{}]}) == 400


@pytest.mark.parametrize(
    "spec", ["x", [], 5, {"containers": "x"}, {"containers": [5]}, {"containers": [{"env": "x"}]}]
)
def test_a_spec_is_typed(api: Api, spec: Any) -> None:
    code, answer = api.answer("POST", PODS, {**pod("x"), "spec": spec})
    assert (code, answer["reason"]) == (400, "BadRequest")
    assert "cannot be handled as a Pod" in answer["message"]


@pytest.mark.parametrize(
    "status",
    [
        *({"capacity": {"cpu": "101%"}}, {"capacity": {"cpu": "12e9999"}}, {"allocatable": "x"}),
        *(
            {"capacity": {"cpu": []}},
            {"conditions": {}},
            {"conditions": [{"lastHeartbeatTime": "x"}]},
        ),
    ],
    ids=str,
)
def test_a_status_is_typed_whichever_way_it_comes(api: Api, status: dict[str, Any]) -> None:
    before = api.get(f"{NODES}/n")
    assert api.code("POST", NODES, {**node(**status), "metadata": {"name": "m"}}) == 400
    assert api.code("PUT", f"{NODES}/n/status", node(**status)) == 400
    patched = api.code("PATCH", f"{NODES}/n/status", {"status": status}, MERGE_PATCH)
    assert patched == 422
    assert api.code("PATCH", f"{NODES}/n/status", {"status": "x"}, MERGE_PATCH) == 422
    assert api.get(f"{NODES}/n") == before


def test_a_null_decodes_into_a_zero_value(api: Api) -> None:
    api.post(CLONESETS, {**cloneset(labels={"a": None}), "spec": {"selector": {}, "template": {}}})
    assert api.get(f"{CLONESETS}/web")["metadata"]["labels"] == {"a": ""}


@pytest.mark.parametrize(
    ("url", "body"),
    [
        *((f"{PODS}/p/binding", {"target": bad}) for bad in (-1, "x", ["a"], {"name": 5})),
        *((f"{PODS}/p/eviction", {"deleteOptions": bad}) for bad in (-1, "x", ["a"])),
        (f"{PODS}/p/eviction", {"metadata": "x"}),
        (f"{PODS}/p/eviction", []),
    ],
    ids=str,
)
def test_bodies_of_subresources_are_typed(api: Api, url: str, body: Any) -> None:
    assert api.code("POST", url, body) == 400


@pytest.mark.parametrize(
    "options",
    [
        *({"preconditions": ["x"]}, {"preconditions": {"uid": 5}}, {"gracePeriodSeconds": "x"}),
        *(
            {"dryRun": "All"},
            {"dryRun": [{}]},
            {"propagationPolicy": []},
            {"orphanDependents": 5},
            [],
        ),
    ],
    ids=str,
)
def test_delete_options_are_typed(api: Api, options: Any) -> None:
    assert api.code("DELETE", f"{CONFIG_MAPS}/here", options, JSON) == 400


def test_reviews_are_typed(api: Api) -> None:
    url = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    assert api.code("POST", url, {"spec": "x"}) == 400
    assert api.code("POST", url, {"spec": {"resourceAttributes": []}}) == 400
