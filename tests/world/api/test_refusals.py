"""Refusals to the letter, as recorded on kube-apiserver 1.34."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.wire.primitives.requests import MERGE_PATCH
from tests.world.api_client import CONFIG_MAPS, PODS, Api, config_map

BUDGETS: Final = "/apis/policy/v1/namespaces/default/poddisruptionbudgets"
LIMITS: Final = "/api/v1/namespaces/default/limitranges"
HELD: Final = {"name": "o", "finalizers": ["a.b/c"]}
CAUSE: Final = {
    "reason": "FieldValueForbidden",
    "message": "Forbidden: no new finalizers can be added if the object is being deleted,"
    ' found new finalizers []string{"d.e/f"}',
    "field": "metadata.finalizers",
}
BODIES: Final[dict[str, tuple[str, dict[str, Any], int]]] = {
    "ConfigMap": (CONFIG_MAPS, {}, 2),
    "PodDisruptionBudget": (BUDGETS, {"spec": {"selector": {}}}, 1),
    "LimitRange": (LIMITS, {"spec": {"limits": []}}, 1),
}


@pytest.mark.parametrize("kind", BODIES)
def test_a_finalizer_added_during_deletion_has_as_many_causes_as_checks(kind: str) -> None:
    url, body, times = BODIES[kind]
    api = Api()
    api.post(url, {"metadata": HELD, **body})
    api.delete(f"{url}/o")
    more = {"metadata": {"finalizers": ["a.b/c", "d.e/f"]}}
    code, answer = api.answer("PATCH", f"{url}/o", more, MERGE_PATCH)
    assert code == 422
    assert answer["details"]["causes"] == [CAUSE] * times
    assert answer["message"].endswith(f' "o" is invalid: metadata.finalizers: {CAUSE["message"]}')


def test_another_uid_has_two_causes() -> None:
    api = Api()
    api.post(CONFIG_MAPS, config_map("o"))
    _, answer = api.answer("PATCH", f"{CONFIG_MAPS}/o", {"metadata": {"uid": "x"}}, MERGE_PATCH)
    assert [c["field"] for c in answer["details"]["causes"]] == ["metadata.uid"] * 2


@pytest.mark.parametrize("words", ["", "Some", "All,"])
def test_a_dry_run_is_one_of_all_or_none(words: str) -> None:
    """Without a word it was meant to change nothing: it is no plain write."""
    api = Api()
    code, answer = api.answer("POST", f"{CONFIG_MAPS}?dryRun={words}", config_map("o"))
    assert (code, answer["details"]["causes"][0]["field"]) == (422, "dryRun")
    assert api.code("DELETE", f"{CONFIG_MAPS}/kube-root-ca.crt?dryRun={words}") == 422
    assert api.code("GET", f"{CONFIG_MAPS}/o") == 404


def test_details_of_a_resource_that_is_not_served_are_empty() -> None:
    code, answer = Api().answer("GET", "/api/v1/namespaces/default/nothings")
    assert (code, answer["details"]) == (404, {})


@pytest.mark.parametrize("meta", [{}, {"name": "other"}])
def test_an_eviction_names_its_pod(meta: dict[str, str]) -> None:
    """Checked before anybody looks for the pod."""
    code, answer = Api().answer("POST", f"{PODS}/p/eviction", {"metadata": meta})
    assert code == 400
    assert answer["message"] == "name in URL does not match name in Eviction object"
