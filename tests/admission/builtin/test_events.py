"""Events are refused as a kube-apiserver 1.34 refuses them, by the version of the request."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import InvalidObject
from tests.world.api_client import Api
from tests.worlds import empty_world

TIME: Final = "2026-01-01T00:00:00.000000Z"
POD: Final = {"apiVersion": "v1", "kind": "Pod", "namespace": "shop", "name": "x"}
TIMED: Final = {
    "eventTime": TIME, "reportingInstance": "i", "action": "a", "reason": "r", "type": "Normal",
}  # fmt: skip
OLD: Final = {**TIMED, "involvedObject": POD, "reportingComponent": "a.b/c"}
NEW: Final = {**TIMED, "regarding": POD, "reportingController": "a.b/c"}
GROUPS: Final = {"v1": "/api/v1", "events.k8s.io/v1": "/apis/events.k8s.io/v1"}


def refused(api: Api, version: str, **event: Any) -> set[str]:
    body = {"apiVersion": version, "kind": "Event", "metadata": {"name": "e"}, **event}
    try:
        api.post(f"{GROUPS[version]}/namespaces/shop/events", body)
    except InvalidObject as error:
        return {cause.field for cause in error.details.causes}
    return set()


@pytest.mark.parametrize(
    ("version", "event", "fields"),
    [
        ("v1", {"involvedObject": POD, "type": "Any"}, set()),
        ("v1", {"involvedObject": {**POD, "namespace": "other"}}, {"involvedObject.namespace"}),
        ("v1", {"involvedObject": {"kind": "Node", "name": "n"}}, {"involvedObject.namespace"}),
        ("v1", OLD, set()),
        (
            "v1",
            {"involvedObject": POD, "eventTime": TIME},
            {"reportingComponent", "reportingInstance", "action", "reason"},
        ),
        ("v1", {**OLD, "reason": "r" * 129, "message": "m" * 1025}, {"reason", "message"}),
        ("events.k8s.io/v1", NEW, set()),
        ("events.k8s.io/v1", {"regarding": POD}, {"eventTime", "type"}),
        (
            "events.k8s.io/v1",
            {**NEW, "deprecatedCount": 1, "deprecatedSource": {"host": "h"}},
            {"count", "source"},
        ),
        (
            "events.k8s.io/v1",
            {**NEW, "series": {"count": 1, "lastObservedTime": TIME}},
            {"series.count"},
        ),
    ],
)
def test_what_an_event_needs(version: str, event: dict[str, Any], fields: set[str]) -> None:
    assert refused(Api(empty_world()), version, **event) == fields


def test_an_event_of_the_new_group_gets_no_other_reason() -> None:
    api = Api(empty_world())
    assert refused(api, "events.k8s.io/v1", **NEW) == set()
    urls = {version: f"{start}/namespaces/shop/events/e" for version, start in GROUPS.items()}
    series = {"series": {"count": 2, "lastObservedTime": TIME}}
    assert api.merge(urls["events.k8s.io/v1"], series)["series"]["count"] == 2
    with pytest.raises(InvalidObject, match=r"reason: .* field is immutable"):
        api.merge(urls["events.k8s.io/v1"], {"reason": "other"})
    assert api.merge(urls["v1"], {"reason": "other"})["reason"] == "other"
