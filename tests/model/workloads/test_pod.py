"""Pod facts: the same from bytes and from a raw object, and what planners ask of them."""

from __future__ import annotations

import json
from datetime import timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.pod import PodFacts, pod_facts, pod_facts_from_bytes
from tests.pods import NOW, OWNER_UID, raw_pod, stamp

FULL: Final = raw_pod(
    "web-abcde",
    annotations={"controller.kubernetes.io/pod-deletion-cost": "-7"},
    finalizers=["example.io/hook"],
    containerStatuses=[
        {"name": "main", "image": "nginx:1.25", "restartCount": 2},
        {"name": "log", "image": "busybox", "restartCount": 5},
    ],
)


def test_facts() -> None:
    pod = pod_facts(FULL)
    assert (pod.name, pod.uid, pod.node, pod.phase) == (
        "web-abcde", "uid-web-abcde", "node-a", "Running",
    )  # fmt: skip
    assert (pod.controller_uid, pod.owner_uids) == (OWNER_UID, (OWNER_UID,))
    assert (pod.revision, pod.short_revision, pod.instance_id) == ("web-new", "new", "abcde")
    assert (pod.deletion_cost, pod.restarts) == (-7, 5)
    assert pod.finalizers == ("example.io/hook",)
    assert pod.ready
    assert pod.in_place is True
    assert pod.ready_since == NOW - timedelta(hours=1)


texts = st.text(max_size=8)
raws = st.fixed_dictionaries(
    {
        "metadata": st.fixed_dictionaries(
            {"name": texts},
            optional={
                "labels": st.none() | st.dictionaries(texts, texts, max_size=3),
                "annotations": st.dictionaries(texts, texts, max_size=3),
                "deletionTimestamp": st.sampled_from([None, stamp(0)]),
                "managedFields": st.just([{"manager": "x"}]),
            },
        )
    },
    optional={
        "spec": st.fixed_dictionaries(
            {}, optional={"nodeName": texts, "containers": st.just([{"name": "a", "ports": []}])}
        ),
        "status": st.fixed_dictionaries(
            {},
            optional={
                "phase": texts,
                "conditions": st.lists(
                    st.fixed_dictionaries(
                        {
                            "type": st.sampled_from(["Ready", "InPlaceUpdateReady"]),
                            "status": st.sampled_from(["True", "False", "Unknown"]),
                        }
                    ),
                    max_size=2,
                ),
            },
        ),
    },
)


@given(raws)
def test_bytes_and_objects_give_the_same_facts(raw: dict[str, Any]) -> None:
    assert pod_facts_from_bytes(json.dumps(raw).encode()) == pod_facts(raw)


@given(raws, raws)
def test_what_two_versions_share_need_not_be_read_again(
    before: dict[str, Any], after: dict[str, Any]
) -> None:
    known = before, pod_facts(before)
    for now in (after, {**before, "metadata": after["metadata"]}, {**after, "spec": {}}):
        assert pod_facts(now, known) == pod_facts(now)


def test_frozen_objects_are_read_too() -> None:
    frozen = MappingProxyType({**FULL, "metadata": MappingProxyType(FULL["metadata"])})
    assert pod_facts(frozen) == pod_facts(FULL)


def test_a_shape_no_server_stores_is_refused() -> None:
    with pytest.raises(msgspec.ValidationError):
        pod_facts({"metadata": {"name": 7}})


# how the pod differs, update-ready, available
READINESS: Final[dict[str, tuple[dict[str, Any], bool, bool]]] = {
    "ready": ({}, True, True),
    "no lifecycle label": ({"state": ""}, True, True),
    "in a lifecycle step": ({"state": "Updating"}, True, False),
    "not ready": ({"ready": False}, False, False),
    "not running": ({"phase": "Pending"}, False, False),
    "in an in-place update": (
        {
            "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": stamp(-9)},
                {"type": "InPlaceUpdateReady", "status": "False"},
            ]
        },
        False,
        False,
    ),
    "without the in-place condition": (
        {"conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": stamp(-9)}]},
        True,
        True,
    ),
}


@pytest.mark.parametrize("row", READINESS.values(), ids=READINESS)
def test_readiness(row: tuple[dict[str, Any], bool, bool]) -> None:
    changes, ready, available = row
    pod = pod_facts(raw_pod("web-a", **changes))
    assert (pod.update_ready(NOW), pod.available(NOW)) == (ready, available)


def test_min_ready_seconds_must_have_passed_strictly() -> None:
    pod = pod_facts(raw_pod("web-a"))
    assert not pod.available(NOW, min_ready_s=3600)
    assert pod.available(NOW + timedelta(milliseconds=1), min_ready_s=3600)


@pytest.mark.parametrize(
    ("label", "revision", "wanted"),
    [
        ("web-cd55", "web-cd55", True),
        ("cd55", "web-cd55", True),
        ("web-cd55", "cd55", True),
        ("other-cd55", "web-cd55", True),
        ("web-cd55", "web-cd56", False),
        ("", "web-cd55", False),
    ],
)
def test_long_and_short_revision_labels_match(label: str, revision: str, wanted: bool) -> None:
    assert PodFacts(name="p", revision=label).on_revision(revision) is wanted


@pytest.mark.parametrize(
    ("changes", "active"),
    [
        ({}, True),
        ({"phase": "Failed"}, False),
        ({"phase": "Succeeded"}, False),
        ({"deletionTimestamp": stamp(0)}, False),
    ],
)
def test_active(changes: dict[str, Any], active: bool) -> None:
    assert pod_facts(raw_pod("web-a", **changes)).active is active
