"""The API over HTTPS: discovery in every form, tables, watches, content types, health of a life."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gitkruise.sandbox.server import SandboxOptions
from tests.sandbox.served import Client, served

MAPS = "/api/v1/namespaces/default/configmaps"
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
PARTIAL = {"Accept": "application/json;as=PartialObjectMetadata{};v=v1;g=meta.k8s.io"}


def config(name: str, **data: str) -> dict[str, Any]:
    meta = {"name": name, "labels": {"set": name}}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


@pytest.fixture
def stored(client: Client, request: pytest.FixtureRequest) -> Any:
    """A ConfigMap of the test's own; deleted after it."""
    name = request.node.name.replace("_", "-")[:40].strip("-[")
    answer = client.ask(MAPS, "POST", config(name, a="b"))
    assert answer.status == 201, answer.data
    yield answer.body
    client.ask(f"{MAPS}/{name}", "DELETE")


@pytest.mark.parametrize("version", ["v2", "v2beta1"])
@pytest.mark.parametrize("root", ["/api", "/apis"])
def test_aggregated_discovery(client: Client, root: str, version: str) -> None:
    accept = f"application/json;g=apidiscovery.k8s.io;v={version};as=APIGroupDiscoveryList"
    answer = client.ask(root, headers={"Accept": accept})
    assert answer.headers["Content-Type"] == accept
    assert answer.body["apiVersion"] == f"apidiscovery.k8s.io/{version}"
    found = {
        (item["metadata"].get("name", ""), resource["resource"])
        for item in answer.body["items"]
        for v in item["versions"]
        for resource in v["resources"]
    }
    wanted = ("", "pods") if root == "/api" else ("apps.kruise.io", "clonesets")
    assert wanted in found


def test_plain_discovery_agrees_with_the_aggregated(client: Client) -> None:
    accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
    aggregated = client.ask("/apis", headers={"Accept": accept}).body["items"]
    groups = client.ask("/apis").body["groups"]
    assert [g["name"] for g in groups] == [i["metadata"]["name"] for i in aggregated]
    for group, item in zip(groups, aggregated, strict=True):
        assert client.ask(f"/apis/{group['name']}").body["versions"] == group["versions"]
        for v, tree in zip(group["versions"], item["versions"], strict=True):
            plain = client.ask(f"/apis/{v['groupVersion']}").body["resources"]
            flat = [
                name
                for r in tree["resources"]
                for name in (
                    r["resource"],
                    *(f"{r['resource']}/{s['subresource']}" for s in r.get("subresources", ())),
                )
            ]
            assert [r["name"] for r in plain] == flat


def test_every_openapi_document_of_the_index_is_served(client: Client) -> None:
    index = client.ask("/openapi/v3").body["paths"]
    assert {"api/v1", "apis/apps.kruise.io/v1alpha1"} <= set(index)
    entry = index["apis/apps.kruise.io/v1beta1"]["serverRelativeURL"]
    document = client.ask(entry).body
    path = "/apis/apps.kruise.io/v1beta1/namespaces/{namespace}/clonesets/{name}"
    patch = document["paths"][path]["patch"]
    assert "fieldValidation" in {p["name"] for p in patch["parameters"]}
    assert "application/strategic-merge-patch+json" not in patch["requestBody"]["content"]
    assert client.ask("/openapi/v3/apis/none/v1").status == 404


def test_a_list_as_table(client: Client, stored: Any) -> None:
    name = stored["metadata"]["name"]
    table = client.ask(f"{MAPS}?labelSelector=set%3D{name}", headers=TABLE).body
    assert (table["kind"], table["apiVersion"]) == ("Table", "meta.k8s.io/v1")
    assert [c["name"] for c in table["columnDefinitions"]] == ["Name", "Data", "Age"]
    (row,) = table["rows"]
    assert row["cells"][:2] == [name, 1]
    assert row["object"]["kind"] == "PartialObjectMetadata"
    whole = client.ask(f"{MAPS}/{name}?includeObject=Object", headers=TABLE).body
    assert whole["rows"][0]["object"]["data"] == {"a": "b"}
    bare = client.ask(f"{MAPS}/{name}?includeObject=None", headers=TABLE).body
    assert bare["rows"][0]["object"] is None
    assert client.ask(f"{MAPS}/{name}?includeObject=All", headers=TABLE).status == 400


def test_metadata_only(client: Client, stored: Any) -> None:
    name = stored["metadata"]["name"]
    one = client.ask(f"{MAPS}/{name}", headers={"Accept": PARTIAL["Accept"].format("")}).body
    assert (one["kind"], set(one)) == ("PartialObjectMetadata", {"kind", "apiVersion", "metadata"})
    many = client.ask(MAPS, headers={"Accept": PARTIAL["Accept"].format("List")}).body
    assert many["kind"] == "PartialObjectMetadataList"
    assert name in {item["metadata"]["name"] for item in many["items"]}


def test_yaml_in_and_out(client: Client) -> None:
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yaml\ndata:\n  a: 'no'\n"
    path = f"{MAPS}/yaml?fieldManager=t"
    applied = client.ask(path, "PATCH", body, {"Content-Type": "application/apply-patch+yaml"})
    assert (applied.status, applied.body["data"]) == (201, {"a": "no"})
    shown = client.ask(f"{MAPS}/yaml", headers={"Accept": "application/yaml"})
    assert shown.headers["Content-Type"] == "application/yaml"
    assert b"name: yaml\n" in shown.data
    bomb = b"a: &a [x,x,x,x,x,x,x,x,x]\n" + b"".join(
        b"%c: &%c [%s]\n" % (n, n, b",".join([b"*%c" % (n - 1)] * 9)) for n in range(98, 107)
    )
    refused = client.ask(path, "PATCH", bomb, {"Content-Type": "application/apply-patch+yaml"})
    assert refused.status == 400  # B-A11
    client.ask(f"{MAPS}/yaml", "DELETE")


def test_a_watch_in_lines(client: Client, stored: Any) -> None:
    name = stored["metadata"]["name"]
    query = f"?watch=1&resourceVersion={stored['metadata']['resourceVersion']}"
    with client.lines(f"{MAPS}{query}&labelSelector=set%3D{name}&timeoutSeconds=10") as lines:
        change = {"Content-Type": "application/merge-patch+json"}
        client.ask(f"{MAPS}/{name}", "PATCH", {"data": {"c": "d"}}, change)
        client.ask(f"{MAPS}/{name}", "PATCH", {"metadata": {"labels": {"set": "x"}}}, change)
        first, second = next(lines), next(lines)
    assert (first["type"], first["object"]["data"]) == ("MODIFIED", {"a": "b", "c": "d"})
    assert second["type"] == "DELETED"  # WATCH-7: it left the selection
    assert int(second["object"]["metadata"]["resourceVersion"]) > int(
        first["object"]["metadata"]["resourceVersion"]
    )


def test_a_watch_as_table_names_its_columns_once(client: Client, stored: Any) -> None:
    name = stored["metadata"]["name"]
    path = f"{MAPS}?watch=1&labelSelector=set%3D{name}&timeoutSeconds=10"
    with client.lines(path, TABLE) as lines:
        first = next(lines)
        change = {"Content-Type": "application/merge-patch+json"}
        client.ask(f"{MAPS}/{name}", "PATCH", {"data": {"c": "d"}}, change)
        second = next(lines)
    assert first["object"]["rows"][0]["cells"][:2] == [name, 1]
    assert len(first["object"]["columnDefinitions"]) == 3
    assert second["object"]["rows"][0]["cells"][:2] == [name, 2]
    assert second["object"]["columnDefinitions"] is None


def test_a_list_can_be_streamed(client: Client, stored: Any) -> None:
    query = "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    with client.lines(f"{MAPS}?watch=1&{query}&timeoutSeconds=5") as lines:
        events = [next(lines)]
        while events[-1]["type"] == "ADDED":
            events.append(next(lines))
    names = {e["object"]["metadata"].get("name") for e in events}
    assert stored["metadata"]["name"] in names
    assert events[-1]["type"] == "BOOKMARK"
    notes = events[-1]["object"]["metadata"]["annotations"]
    assert notes == {"k8s.io/initial-events-end": "true"}


@pytest.mark.parametrize(
    ("query", "status"),
    [
        ("resourceVersion=-1", 500),  # B-A20
        ("resourceVersion=abc", 500),
        ("resourceVersion=18446744073709551616", 500),
        ("timeoutSeconds=-1", 400),
        ("allowWatchBookmarks=maybe", 400),
        ("labelSelector=%28", 400),  # B-A22
        ("fieldSelector=spec.x%3D1", 400),
    ],
)
def test_bad_terms_of_a_watch(client: Client, query: str, status: int) -> None:
    answer = client.ask(f"{MAPS}?watch=true&{query}")
    assert (answer.status, answer.body["kind"]) == (status, "Status")


def test_a_life_with_a_store(tmp_path: Path) -> None:
    """Token, authority, port and objects survive a restart; nothing else is left behind."""
    state = tmp_path / "state"
    options = SandboxOptions(state_dir=state, nodes=1, speed=50, controllers=False)
    with served(options) as first:
        assert first.client.ask(MAPS, "POST", config("kept", a="b")).status == 201
        kept = first.client.ask(f"{MAPS}/kept").body
        assert (state / "kubeconfig").read_text() == first.sandbox.kubeconfig
        assert (state / "sandbox.json").exists()
    assert not {"kubeconfig", "sandbox.json"} & {p.name for p in state.iterdir()}
    with served(options) as second:
        assert second.sandbox.kubeconfig == first.sandbox.kubeconfig
        assert first.client.ask(f"{MAPS}/kept").body == kept
        later = first.client.ask(MAPS, "POST", config("later")).body["metadata"]
        assert int(later["resourceVersion"]) > int(kept["metadata"]["resourceVersion"])
        gone = f"{MAPS}?watch=1&resourceVersion={kept['metadata']['resourceVersion']}"
        assert first.client.ask(gone).status == 410  # STORE-14


def test_a_command_of_several_words_is_refused_in_one_sentence(client: Client) -> None:
    """kubectl cp runs tar: exec gets one parameter for each word."""
    pods = "/api/v1/namespaces/default/pods"
    spec = {"containers": [{"name": "app", "image": "app:1"}], "nodeName": "node-0"}
    body = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "copied"}, "spec": spec}
    assert client.ask(pods, "POST", body).status == 201
    answer = client.ask(f"{pods}/copied/exec?command=tar&command=cf&command=-", "POST")
    assert answer.status == 501
    assert answer.body["message"].endswith("no container runs, so exec cannot work here")
    twice = client.ask(f"{MAPS}?limit=1&limit=2")
    assert "given twice" in twice.body["message"]


@pytest.mark.parametrize(
    ("group", "made", "cell"),
    [
        (
            "events.k8s.io/v1/namespaces/default/events",
            {"involvedObject": {"kind": "Pod", "name": "seen"}, "message": "words"},
            "words",
        ),
        (
            "autoscaling/v1/namespaces/default/horizontalpodautoscalers",
            {
                "spec": {
                    "maxReplicas": 3,
                    "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "w"},
                }
            },
            "Deployment/w",
        ),
    ],
)
def test_a_list_in_another_form_than_the_stored_one_is_a_table(
    client: Client, group: str, made: dict[str, Any], cell: str
) -> None:
    plural = group.rpartition("/")[2]
    url = f"/apis/{group}" if plural != "events" else "/api/v1/namespaces/default/events"
    body = {"metadata": {"name": "tabled"}, **made}
    assert client.ask(url, "POST", body).status == 201
    rows = client.ask(f"/apis/{group}", headers=TABLE).body["rows"]
    assert any(cell in row["cells"] for row in rows)
    client.ask(f"{url}/tabled", "DELETE")
