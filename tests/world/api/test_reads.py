"""get, list and watch: selectors, one snapshot for all pages, versions, where a watch starts."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from gitkruise.errors import ApiError, WatchExpired
from gitkruise.world.api.cluster import World
from gitkruise.world.api.watch import INITIAL_EVENTS_END
from tests.world.api_client import CONFIG_MAPS, PODS, Api, config_map, pod


def filled(count: int = 7) -> Api:
    api = Api()
    for index in range(count):
        tier = "web" if index % 2 else "db"
        api.post(CONFIG_MAPS, config_map(f"c{index}", {"n": str(index)}, labels={"tier": tier}))
    return api


def pages(api: Api, url: str) -> list[list[str]]:
    out, token = list[list[str]](), ""
    for _ in range(20):
        page = api.get(url + (f"&continue={token}" if token else ""))
        out.append([item["metadata"]["name"] for item in page["items"]])
        token = page["metadata"].get("continue", "")
        if not token:
            return out
    raise AssertionError("the pages never end")


SELECTED = {
    "all": ("", ["c0", "c1", "c2", "c3", "c4", "c5", "c6"]),
    "label": ("labelSelector=tier%3Dweb", ["c1", "c3", "c5"]),
    "label not": ("labelSelector=tier%21%3Dweb", ["c0", "c2", "c4", "c6"]),
    "name": ("fieldSelector=metadata.name%3Dc3", ["c3"]),
    "name and label": ("fieldSelector=metadata.name%3Dc3&labelSelector=tier%3Ddb", []),
    "other namespace": ("fieldSelector=metadata.namespace%3Dother", []),
}


@pytest.mark.parametrize(("query", "names"), SELECTED.values(), ids=SELECTED)
def test_selectors(query: str, names: list[str]) -> None:
    assert filled().names(f"{CONFIG_MAPS}?{query}") == names


def test_lists_are_in_storage_order_over_namespaces() -> None:
    api = Api()
    for namespace in ("a", "a-b", "b"):
        api.post("/api/v1/namespaces", {"metadata": {"name": namespace}})
        api.post(f"/api/v1/namespaces/{namespace}/configmaps", config_map("x"))
    listed = api.get("/api/v1/configmaps")["items"]
    assert [item["metadata"]["namespace"] for item in listed] == ["a-b", "a", "b"], (
        "- sorts before /"
    )


def test_store_9_pages_are_one_snapshot() -> None:
    api = filled()
    first = api.get(CONFIG_MAPS + "?limit=3")
    assert first["metadata"]["remainingItemCount"] == 4
    api.delete(CONFIG_MAPS + "/c4")
    api.post(CONFIG_MAPS, config_map("c44"))
    api.merge(CONFIG_MAPS + "/c5", {"data": {"n": "new"}})
    token = first["metadata"]["continue"]
    second = api.get(f"{CONFIG_MAPS}?limit=10&continue={token}")
    found = [(item["metadata"]["name"], item["data"]["n"]) for item in second["items"]]
    assert found == [("c3", "3"), ("c4", "4"), ("c5", "5"), ("c6", "6")]
    assert second["metadata"] == {"resourceVersion": first["metadata"]["resourceVersion"]}


def test_pages_of_a_selection() -> None:
    api = filled()
    url = CONFIG_MAPS + "?limit=2&labelSelector=tier%3Dweb"
    assert pages(api, url) == [["c1", "c3"], ["c5"]]
    assert "remainingItemCount" not in api.get(url)["metadata"]


def forged(token: str, **change: Any) -> str:
    padded = token + "=" * (-len(token) % 4)
    content = {**json.loads(base64.urlsafe_b64decode(padded)), **change}
    return base64.urlsafe_b64encode(json.dumps(content).encode()).decode().rstrip("=")


def test_b_a21_tokens_are_for_their_own_list() -> None:
    api = filled()
    token = api.get(CONFIG_MAPS + "?limit=3")["metadata"]["continue"]
    for bad in ("abc", forged(token, rv=1), forged(token, start="default/c0"), "e30"):
        assert api.code("GET", f"{CONFIG_MAPS}?continue={bad}") == 400
    assert api.code("GET", f"{CONFIG_MAPS}?labelSelector=a&continue={token}") == 400
    assert api.code("GET", f"{PODS}?continue={token}") == 400


def test_an_expired_token_is_gone() -> None:
    api = filled()
    token = api.get(CONFIG_MAPS + "?limit=3")["metadata"]["continue"]
    api.world.state.journal.limit = 2
    for index in range(5):
        api.merge(CONFIG_MAPS + "/c0", {"data": {"n": f"again {index}"}})
    code, status = api.answer("GET", f"{CONFIG_MAPS}?limit=3&continue={token}")
    assert (code, status["reason"]) == (410, "Expired")


def test_an_exact_version_is_served_as_it_was() -> None:
    api = filled(2)
    then = api.world.version
    api.delete(CONFIG_MAPS + "/c0")
    url = f"{CONFIG_MAPS}?resourceVersion={then}"
    assert api.names(url + "&resourceVersionMatch=Exact") == ["c0", "c1"]
    assert api.names(url + "&resourceVersionMatch=NotOlderThan") == ["c1"]
    assert api.names(url) == ["c1"]


BAD_READS = {
    "limit": (CONFIG_MAPS + "?limit=x", 400),
    "version": (CONFIG_MAPS + "?resourceVersion=-1", 400),
    "version too large for a number": (CONFIG_MAPS + f"?resourceVersion={2**64}", 400),
    "future": (CONFIG_MAPS + "?resourceVersion=999999", 504),
    "match alone": (CONFIG_MAPS + "?resourceVersionMatch=Exact", 422),
    "selector": (CONFIG_MAPS + "?labelSelector=a%20in%20b", 400),
    "field": (CONFIG_MAPS + "?fieldSelector=spec.x%3D1", 400),
    "no such plural": ("/api/v1/namespaces/default/nopes", 404),
    "no such subresource": (PODS + "/p/nope", 404),
}


@pytest.mark.parametrize(("url", "code"), BAD_READS.values(), ids=BAD_READS)
def test_bad_reads(url: str, code: int) -> None:
    assert filled(1).code("GET", url) == code


def events_of(events: Any) -> list[tuple[str, str]]:
    return [(event.type, event.object["metadata"].get("name", "")) for event in events]


def test_a_watch_starts_with_what_is_there() -> None:
    api = filled(2)
    events, position = api.watch(CONFIG_MAPS)
    assert events_of(events) == [("ADDED", "c0"), ("ADDED", "c1")]
    assert position == api.world.version
    assert api.watch(CONFIG_MAPS, position) == ([], position)


def test_a_watch_list_ends_its_start_with_a_bookmark() -> None:
    query = "?sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true"
    api = filled(1)
    events, _ = api.watch(CONFIG_MAPS + query)
    assert events_of(events) == [("ADDED", "c0"), ("BOOKMARK", "")]
    meta = events[-1].object["metadata"]
    assert meta["annotations"] == {INITIAL_EVENTS_END: "true"}
    assert meta["resourceVersion"] == str(api.world.version)


def test_watch_7_selectors_are_entered_and_left() -> None:
    api, url = filled(1), CONFIG_MAPS + "?labelSelector=tier%3Dweb"
    position = api.world.version
    for tier in ("web", "web2", "db", "web"):
        api.merge(CONFIG_MAPS + "/c0", {"metadata": {"labels": {"tier": tier}}})
    api.merge(CONFIG_MAPS + "/c0", {"data": {"n": "9"}})
    events, position = api.watch(url, position)
    assert events_of(events) == [
        ("ADDED", "c0"),
        ("DELETED", "c0"),
        ("ADDED", "c0"),
        ("MODIFIED", "c0"),
    ]
    assert events[1].object["metadata"]["labels"] == {"tier": "web"}, "as it was when selected"
    assert position == api.world.version


def test_watch_6_a_forgotten_past_is_gone() -> None:
    api = filled(1)
    api.world.state.journal.limit = 3
    since = api.world.version
    for index in range(8):
        api.merge(CONFIG_MAPS + "/c0", {"data": {"n": f"again {index}"}})
    with pytest.raises(WatchExpired):
        api.watch(CONFIG_MAPS, since)
    with pytest.raises(WatchExpired):
        api.watch(f"{CONFIG_MAPS}?resourceVersion={since}")
    assert len(api.watch(CONFIG_MAPS, api.world.version - 3)[0]) == 3


def test_watch_9_a_watch_from_the_future_waits() -> None:
    api = filled(1)
    ahead = api.world.version + 1
    events, position = api.watch(f"{CONFIG_MAPS}?resourceVersion={ahead}")
    assert (events, position) == ([], ahead)
    api.merge(CONFIG_MAPS + "/c0", {"data": {"n": "1st"}})
    assert api.watch(CONFIG_MAPS, position) == ([], ahead)
    api.merge(CONFIG_MAPS + "/c0", {"data": {"n": "2nd"}})
    events, _ = api.watch(CONFIG_MAPS, position)
    assert [event.object["data"]["n"] for event in events] == ["2nd"]


@pytest.mark.parametrize("version", ["abc", "-1", str(2**64)])
def test_b_a20_senseless_versions(version: str) -> None:
    with pytest.raises(ApiError, match="invalid syntax"):
        filled(1).watch(f"{CONFIG_MAPS}?resourceVersion={version}")


def test_a_fork_goes_its_own_way() -> None:
    api = filled(2)
    twin = Api(api.world.fork())
    twin.delete(CONFIG_MAPS + "/c0")
    api.merge(CONFIG_MAPS + "/c1", {"data": {"n": "changed"}})
    assert (api.names(CONFIG_MAPS), twin.names(CONFIG_MAPS)) == (["c0", "c1"], ["c1"])
    assert twin.get(CONFIG_MAPS + "/c1")["data"] == {"n": "1"}
    assert isinstance(twin.world, World)


def test_planners_see_pods_by_owner() -> None:
    api = Api()
    ref = {"apiVersion": "v1", "kind": "ConfigMap", "name": "o", "uid": "u1"}
    api.post(PODS, pod("b", ownerReferences=[ref]))
    api.post(PODS, pod("a", ownerReferences=[{**ref, "uid": "u2"}, ref]))
    api.post(PODS, pod("c", ownerReferences=[{**ref, "uid": "u2"}]))
    first = api.world.pods_of("u1", "default")
    assert [facts.name for facts in first] == ["a", "b"]
    again = api.world.pods_of("u1", "default")
    assert all(x is y for x, y in zip(first, again, strict=True)), "read once for each version"
    api.merge(PODS + "/a", {"metadata": {"ownerReferences": None}})
    assert [facts.name for facts in api.world.pods_of("u1", "default")] == ["b"]


def test_planners_see_all_pods_of_a_namespace_or_of_all() -> None:
    api = Api()
    api.post("/api/v1/namespaces", {"metadata": {"name": "a-b"}})
    for path, name in ((PODS, "b"), (PODS, "a"), (PODS.replace("default", "a-b"), "c")):
        api.post(path, pod(name))
    assert [facts.name for facts in api.world.pods("default")] == ["a", "b"]
    everywhere = api.world.pods("")
    assert [facts.name for facts in everywhere] == ["c", "a", "b"]
    assert all(x is y for x, y in zip(everywhere, api.world.pods(""), strict=True))
    api.merge(PODS + "/a", {"metadata": {"labels": {"app": "x"}}})
    assert [facts.labels for facts in api.world.pods("default")] == [{"app": "x"}, {}]
    assert api.world.pods("nowhere") == []
