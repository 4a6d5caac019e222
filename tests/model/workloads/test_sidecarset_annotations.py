"""Annotations pods carry about SidecarSets: lenient reading, exact writing (SIDE-1 to SIDE-7)."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_annotations import (
    INJECTED_LIST,
    INPLACE_STATE,
    WORKING,
    HashMark,
    in_place_states,
    in_place_text,
    injected_notes,
    injected_sets,
    mark_of,
    mark_without_image,
    upgraded_notes,
    working_containers,
    working_text,
)
from gitkruise.model.workloads.sidecarset_hash import HASH, HASH_WITHOUT_IMAGE

NOW: Final = datetime(2026, 7, 2, 8, 0, 0, 999_999, tzinfo=UTC)
STAMP: Final = "2026-07-02T08:00:00Z"
NAME: Final = "test-sidecarset"
PRESENT: Final = {
    HASH: '{"test-sidecarset":{"hash":"aaa"}}',
    HASH_WITHOUT_IMAGE: '{"test-sidecarset":{"hash":"without-image-aaa"}}',
}
LEGACY: Final = {
    HASH: '{"test-sidecarset": "aaa"}',
    HASH_WITHOUT_IMAGE: '{"test-sidecarset": "without-image-aaa"}',
}
GARBAGE: Final = {HASH: "no {json", HASH_WITHOUT_IMAGE: "[" * 100_000}


def facts(name: str = NAME, **spec: Any) -> SidecarSetFacts:
    raw = {
        "apiVersion": "apps.kruise.io/v1beta1",
        "metadata": {"name": name, "annotations": {HASH: "bbb", HASH_WITHOUT_IMAGE: "wo-bbb"}},
        "spec": {"containers": [{"name": "log"}, {"name": "mesh"}], **spec},
        "status": {"latestRevision": f"{name}-7xx"},
    }
    return sidecarset_facts(raw)


@pytest.mark.parametrize(
    ("notes", "hashes"),
    [
        pytest.param(PRESENT, ("aaa", "without-image-aaa"), id="SIDE-1"),
        pytest.param(LEGACY, ("aaa", "without-image-aaa"), id="SIDE-2"),
        pytest.param(GARBAGE, ("", ""), id="SIDE-3"),
        pytest.param({}, ("", ""), id="absent"),
        pytest.param({HASH: "null"}, ("", ""), id="null"),
        pytest.param({HASH: '{"other":{"hash":"x"}}'}, ("", ""), id="of another set"),
        pytest.param({HASH: '{"test-sidecarset":null}'}, ("", ""), id="an entry that is null"),
        pytest.param({HASH: '{"test-sidecarset":7}'}, ("", ""), id="an entry that is a number"),
    ],
)
def test_reading(notes: dict[str, str], hashes: tuple[str, str]) -> None:
    assert (mark_of(notes, NAME).hash, mark_without_image(notes, NAME).hash) == hashes


def test_reading_a_whole_record() -> None:
    text = (
        '{"ss":{"updateTimestamp":"2026-07-02T08:00:00Z","hash":"H","sidecarSetName":"ss",'
        '"sidecarList":["log","mesh"],"controllerRevision":"ss-7xx"}}'
    )
    assert mark_of({HASH: text}, "ss") == HashMark(
        hash="H", updated=STAMP, sidecars=("log", "mesh"), revision="ss-7xx"
    )


WRITTEN: Final = (
    '"test-sidecarset":{"updateTimestamp":"2026-07-02T08:00:00Z","hash":"bbb",'
    '"sidecarSetName":"test-sidecarset","sidecarList":["log","mesh"],'
    '"controllerRevision":"test-sidecarset-7xx"}'
)
MIGRATED: Final = (
    '{"test-sidecarset":{"updateTimestamp":"2026-07-02T08:00:00Z","hash":"without-image-aaa",'
    '"sidecarSetName":"test-sidecarset","sidecarList":null}}'
)


@pytest.mark.parametrize(
    ("notes", "written"),
    [
        pytest.param(PRESENT, {HASH: f"{{{WRITTEN}}}"}, id="SIDE-4"),
        pytest.param(LEGACY, {HASH: f"{{{WRITTEN}}}", HASH_WITHOUT_IMAGE: MIGRATED}, id="SIDE-5"),
        pytest.param(GARBAGE, {HASH: f"{{{WRITTEN}}}"}, id="SIDE-6"),
        pytest.param({}, {HASH: f"{{{WRITTEN}}}"}, id="absent"),
        pytest.param(
            {HASH: '{"a":{"hash":"x","sidecarSetName":"a"}}'},
            {
                HASH: '{"a":{"updateTimestamp":null,"hash":"x","sidecarSetName":"a",'
                f'"sidecarList":null}},{WRITTEN}}}'
            },
            id="another set's entry stays",
        ),
    ],
)
def test_upgrade_writes(notes: dict[str, str], written: dict[str, str]) -> None:
    assert upgraded_notes(notes, facts(), NOW) == written


def test_injection_converts_legacy_entries_of_other_sets() -> None:
    """SIDE-7."""
    notes = {HASH: '{"old":"aaa"}', HASH_WITHOUT_IMAGE: '{"old":"bbb"}', INJECTED_LIST: "old"}
    found = injected_notes(notes, [(facts("ss"), True)], NOW)
    converted = (
        '"old":{"updateTimestamp":null,"hash":"HH","sidecarSetName":"old","sidecarList":null}'
    )
    ours = (
        '"ss":{"updateTimestamp":"2026-07-02T08:00:00Z","hash":"HH","sidecarSetName":"ss",'
        '"sidecarList":["log","mesh"]'
    )
    assert found == {
        HASH: "{"
        + converted.replace("HH", "aaa")
        + ","
        + ours.replace("HH", "bbb")
        + ',"controllerRevision":"ss-7xx"}}',
        HASH_WITHOUT_IMAGE: "{"
        + converted.replace("HH", "bbb")
        + ","
        + ours.replace("HH", "wo-bbb")
        + "}}",
        INJECTED_LIST: "old,ss",
    }


def test_a_set_that_brought_no_container_is_listed_alone() -> None:
    found = injected_notes({}, [(facts("b"), True), (facts("a"), False)], NOW)
    assert found[INJECTED_LIST] == "a,b"
    assert mark_of(found, "a") == HashMark()


def test_injection_refuses_what_cannot_be_merged() -> None:
    with pytest.raises(ValueError, match="sidecarset-hash cannot be read"):
        injected_notes({HASH: "garbage"}, [(facts(), True)], NOW)


def test_native_and_ordinary_sidecars_are_listed_under_their_base_names() -> None:
    inits = [{"name": "prep"}, {"name": "net", "restartPolicy": "Always"}]
    hot = {"name": "mesh", "upgradeStrategy": {"upgradeType": "HotUpgrade"}}
    assert facts(containers=[hot], initContainers=inits).sidecar_list == ("mesh", "net")


def test_the_list_of_sets() -> None:
    assert injected_sets({INJECTED_LIST: "a,c"}) == ("a", "c")
    assert injected_sets({INJECTED_LIST: ""}) == injected_sets({}) == ()


def test_states_of_in_place_upgrades() -> None:
    text = (
        '{"ss":{"revision":"bbb","updateTimestamp":"2026-07-02T09:56:09Z","lastContainerStatuses":'
        '{"side":{"imageID":"docker-pullable://test-image@sha256:a928"},"two":{}}}}'
    )
    found = in_place_states({INPLACE_STATE: text})
    assert found is not None
    assert found["ss"]["lastContainerStatuses"]["two"] == {}
    assert in_place_text({}, "ss", found["ss"]) == text
    assert in_place_text({"ss": {"revision": "aaa"}}, "ss", found["ss"]) == text
    beside = json.loads(in_place_text(found, "another", found["ss"]))
    assert beside == {"another": found["ss"], "ss": found["ss"]}
    assert in_place_states({}) == {}
    assert in_place_states({INPLACE_STATE: "?"}) is None


def test_working_containers() -> None:
    text = working_text({"mesh": "mesh-2", "dns": "dns-1"})
    assert text == '{"dns":"dns-1","mesh":"mesh-2"}'
    assert working_containers({WORKING: text}) == {"mesh": "mesh-2", "dns": "dns-1"}
    assert working_containers({WORKING: '{"a":1}'}) == working_containers({WORKING: "x"}) == {}


@given(st.text())
def test_no_annotation_stops_a_reader_or_an_upgrade(text: str) -> None:
    notes = {HASH: text, HASH_WITHOUT_IMAGE: text, INPLACE_STATE: text, WORKING: text}
    assert mark_of(notes, NAME).hash == ""
    assert mark_of(upgraded_notes(notes, facts(), NOW), NAME).hash == "bbb"
    assert working_containers(notes) == {}
