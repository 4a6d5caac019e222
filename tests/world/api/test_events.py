"""Events of both groups are the same objects, as recorded on kube-apiserver 1.34."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.errors import BadRequest
from tests.world.api_client import Api

CORE: Final = "/api/v1/namespaces/default/events"
NEW: Final = "/apis/events.k8s.io/v1/namespaces/default/events"
POD: Final = {"kind": "Pod", "name": "p", "namespace": "default"}
OLD: Final[dict[str, Any]] = {
    "apiVersion": "v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "involvedObject": POD,
    "reason": "R",
    "message": "m",
    "type": "Normal",
    "count": 2,
    "source": {"component": "c"},
    "firstTimestamp": "2026-01-01T00:00:00Z",
    "lastTimestamp": "2026-01-01T00:00:00Z",
}
RECENT: Final[dict[str, Any]] = {
    "apiVersion": "events.k8s.io/v1",
    "kind": "Event",
    "metadata": {"name": "e"},
    "eventTime": "2026-01-01T00:00:00.123456Z",
    "reportingController": "a.b/c",
    "reportingInstance": "i",
    "action": "A",
    "regarding": POD,
    "reason": "R",
    "note": "m",
    "type": "Normal",
}


def fields(obj: Any) -> dict[str, Any]:
    return {k: v for k, v in obj.items() if k != "metadata"}


def test_an_event_of_core_reads_as_one_of_the_new_group() -> None:
    api = Api()
    api.post(CORE, OLD)
    assert fields(api.get(f"{CORE}/e")) == {
        **fields(OLD),
        "eventTime": None,
        "reportingComponent": "",
        "reportingInstance": "",
    }
    assert fields(api.get(f"{NEW}/e")) == {
        "apiVersion": "events.k8s.io/v1",
        "kind": "Event",
        "regarding": POD,
        "reason": "R",
        "note": "m",
        "type": "Normal",
        "eventTime": None,
        "deprecatedCount": 2,
        "deprecatedSource": {"component": "c"},
        "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": "2026-01-01T00:00:00Z",
    }


def test_an_event_of_the_new_group_reads_as_one_of_core() -> None:
    api = Api()
    assert fields(api.post(NEW, RECENT)) == {
        **fields(RECENT),
        "deprecatedSource": {},
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
    }
    assert fields(api.get(f"{CORE}/e")) == {
        "apiVersion": "v1",
        "kind": "Event",
        "involvedObject": POD,
        "reason": "R",
        "message": "m",
        "type": "Normal",
        "action": "A",
        "source": {},
        "firstTimestamp": None,
        "lastTimestamp": None,
        "eventTime": "2026-01-01T00:00:00.123456Z",
        "reportingComponent": "a.b/c",
        "reportingInstance": "i",
    }


def test_both_groups_list_watch_change_and_delete_the_same_events() -> None:
    api = Api()
    api.post(CORE, OLD)
    api.post(NEW, {**RECENT, "metadata": {"name": "f"}})
    assert api.names(CORE) == api.names(NEW) == ["e", "f"]
    api.merge(f"{NEW}/e", {"metadata": {"labels": {"a": "b"}}})
    assert api.get(f"{CORE}/e")["metadata"]["labels"] == {"a": "b"}
    seen, _ = api.watch(NEW)
    assert {event.object["apiVersion"] for event in seen} == {"events.k8s.io/v1"}
    api.delete(f"{NEW}/e")
    assert api.names(CORE) == ["f"]


@pytest.mark.parametrize(
    ("url", "selector", "found"),
    [
        (CORE, "involvedObject.name=p,reason=R", ["e"]),
        (NEW, "regarding.name=p,reason=R,type=Normal", ["e"]),
        (NEW, "regarding.name=q", []),
        (NEW, "reportingController!=x", ["e"]),
    ],
)
def test_field_selectors(url: str, selector: str, found: list[str]) -> None:
    api = Api()
    api.post(CORE, OLD)
    assert api.names(f"{url}?fieldSelector={selector}") == found


def test_fields_of_the_other_group_are_no_selectors() -> None:
    with pytest.raises(BadRequest, match="label not supported: involvedObject"):
        Api().names(f"{NEW}?fieldSelector=involvedObject.name=p")


def test_managers_keep_the_group_they_wrote_in() -> None:
    api = Api()
    api.post(CORE, OLD)
    made = api.merge(f"{NEW}/e", {"action": "Acting"})
    owners = {m["apiVersion"]: m["fieldsV1"] for m in made["metadata"]["managedFields"]}
    assert owners["events.k8s.io/v1"] == {"f:action": {}}
    assert "f:message" in owners["v1"]
