"""Server-side apply answers as a kube-apiserver 1.34 did: objects, owners, conflicts, versions."""

from __future__ import annotations

from typing import Any

import pytest

from tests.world.api_client import CONFIG_MAPS, CRDS, Api, config_map, recorded

SCENARIOS: dict[str, Any] = recorded("apply.json")
FLEETING = frozenset({"uid", "resourceVersion", "creationTimestamp", "time", "lastTransitionTime"})
ADDED_BY_ADMISSION = frozenset({"targetPort", "sessionAffinity"})  # no admission in these worlds


def shape(value: Any) -> Any:
    """Return the comparable part of a value: no uids, versions and times; causes sorted."""
    if isinstance(value, dict):
        if "causes" in value:
            value = {**value, "causes": sorted(value["causes"], key=str)}
        gone = FLEETING | ADDED_BY_ADMISSION
        return {key: shape(item) for key, item in value.items() if key not in gone}
    return [shape(item) for item in value] if isinstance(value, list) else value


def seen(code: int, body: Any) -> Any:
    """An answer as it was recorded; a 500 of the server has no reason, ours says InternalError."""
    if code < 300:
        return shape(body)
    wanted = ("message", "details") if code == 500 else ("message", "details", "reason")
    return shape({name: body[name] for name in wanted if name in body})


@pytest.mark.parametrize("name", SCENARIOS)
def test_apply_scenario(name: str) -> None:
    api, version = Api(), None
    api.post(CRDS, recorded("widget.json"))
    for step in SCENARIOS[name]:
        answer = step["answer"]
        code, body = api.answer(*step["request"])
        assert (code, seen(code, body)) == (answer["code"], seen(code, answer["body"]))
        before, version = version, body["metadata"]["resourceVersion"] if code < 300 else version
        assert (before == version) == answer["same_version"], "a new version iff something changed"


def test_there_are_enough_scenarios() -> None:
    assert len(SCENARIOS) >= 50


def test_applying_again_leaves_times_alone() -> None:
    """STORE-11: identical content changes nothing, not even when the manager applied last."""
    api = Api()
    first = api.apply(CONFIG_MAPS + "/a", config_map("a", {"x": "1"}))
    api.wait(minutes=5)
    assert api.apply(CONFIG_MAPS + "/a", config_map("a", {"x": "1"})) == first
    assert api.world.version == int(first["metadata"]["resourceVersion"])


def test_apply_in_another_version_keeps_one_entry() -> None:
    api, url = Api(), ""
    spec = {"selector": {"matchLabels": {"a": "b"}}, "replicas": 2}
    body: dict[str, Any] = {"kind": "CloneSet", "metadata": {"name": "w"}, "spec": spec}
    for version in ("v1alpha1", "v1beta1"):
        url = f"/apis/apps.kruise.io/{version}/namespaces/default/clonesets/w"
        template = {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": []}}
        sent = {
            **body,
            "apiVersion": f"apps.kruise.io/{version}",
            "spec": {**spec, "template": template},
        }
        api.apply(url, sent)
    listed = api.get(url)["metadata"]["managedFields"]
    assert [(e["manager"], e["apiVersion"]) for e in listed] == [("gk", "apps.kruise.io/v1beta1")]


def test_metadata_stay_when_nothing_in_them_is_applied_any_more() -> None:
    api, url = Api(), CONFIG_MAPS + "/a"
    held = config_map("a", {})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    made = api.apply(url, held)
    api.delete(url)
    held["metadata"]["finalizers"] = []
    gone = api.apply(url, held)
    assert gone["metadata"]["uid"] == made["metadata"]["uid"]
    assert api.answer("GET", url)[0] == 404
