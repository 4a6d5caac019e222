"""Times that are not set are null where Go writes them so (recorded in tests/transcripts)."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.world.write.decoding import corrupt_at
from tests.world.api_client import PODS, Api
from tests.worlds import pod


def test_a_condition_has_its_times() -> None:
    api = Api()
    api.post(PODS, pod())
    status = {"status": {"conditions": [{"type": "Ready", "status": "True"}]}}
    (condition,) = api.merge(f"{PODS}/p/status", status)["status"]["conditions"]
    assert condition == {"type": "Ready", "status": "True", "lastProbeTime": None,
                         "lastTransitionTime": None}  # fmt: skip
    version = api.get(f"{PODS}/p")["metadata"]["resourceVersion"]
    assert api.merge(f"{PODS}/p/status", status)["metadata"]["resourceVersion"] == version


def test_a_container_has_the_times_of_its_states() -> None:
    api = Api()
    api.post(PODS, pod())
    entry: dict[str, Any] = {"name": "app", "state": {"running": {}},
                             "lastState": {"terminated": {"exitCode": 1}}}  # fmt: skip
    made = api.merge(f"{PODS}/p/status", {"status": {"containerStatuses": [entry]}})
    (shown,) = made["status"]["containerStatuses"]
    assert shown["state"] == {"running": {"startedAt": None}}
    assert shown["lastState"]["terminated"] == {
        "exitCode": 1, "startedAt": None, "finishedAt": None}  # fmt: skip


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ("", None), ("aGk=", None), ("aG\nk=", None), ("aGkh", None), ("not base64!", 3),
        ("a", 0), ("aGk", 0), ("aGkha", 4), ("=", 0), ("a=", 1), ("aG=", 0), ("aGk=a", 4),
        ("aG==", None), ("aG=x", 3),
    ],
)  # fmt: skip
def test_the_place_that_is_no_base64(text: str, place: int | None) -> None:
    assert corrupt_at(text) == place
