"""Consistency of pods with their spec, and matching: tables 8.2 and 8.8."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

import pytest

from gitkruise.model.workloads.pod import pod_facts
from gitkruise.model.workloads.sidecarset import sidecarset_facts
from gitkruise.planner.sidecarset.matching import matched, named_by
from gitkruise.planner.sidecarset.pod_view import MatchCriteria
from gitkruise.wire.primitives.names import Obj
from tests.planner.sidecarset.build import EMPTY, hot, injected, running, sidecarset

SET: Final = sidecarset(
    {"name": "cold-sidecar", "image": "cold:1"}, hot("hot:1", name="hot-sidecar")
)
STATE: Final = "kruise.io/sidecarset-inplace-update-state"
C, H1, H2 = "cold-sidecar", "hot-sidecar-1", "hot-sidecar-2"
V1: Final = {C: "cold:1", H1: "hot:1", H2: EMPTY}
DIGEST: Final = f"sha256:{'a' * 64}"

# images in the spec, (image, imageID) in the status where they differ, image ids before, complete
Statuses = Mapping[str, tuple[str, str]]
ROWS: Final[dict[str, tuple[Mapping[str, str], Statuses, Mapping[str, str] | None, bool]]] = {
    "SIDE-8": (V1, {}, None, True),
    "SIDE-9": ({**V1, C: "cold:2"}, {C: ("cold:1", "c1")}, {C: "c1"}, False),
    "SIDE-10": ({**V1, C: "cold:2"}, {C: ("cold:2", "c2")}, {C: "c1"}, True),
    "SIDE-11": (
        {**V1, C: "cold:2", H2: "hot:2"},
        {C: ("cold:2", "c2"), H2: (EMPTY, "e")}, {C: "c1", H2: "e"}, False,
    ),
    "SIDE-12": (
        {C: "cold:2", H1: EMPTY, H2: "hot:2"},
        {C: ("cold:2", "c2"), H2: ("hot:2", "h2"), H1: ("hot:1", "h1")},
        {C: "c1", H2: "e", H1: "h1"}, False,
    ),
    "SIDE-13": (
        {C: "cold:2", H1: EMPTY, H2: "hot:2"},
        {C: ("cold:2", "c2"), H2: ("hot:2", "h2"), H1: (EMPTY, "e")},
        {C: "c1", H2: "e", H1: "h1"}, True,
    ),
    "SIDE-14 a new tag of the same content": (
        {**V1, C: "cold:2"}, {C: ("cold:2", "c1")}, {C: "c1"}, True,
    ),
    "SIDE-15 quirk: the registry spelt out is the same image": (
        {**V1, C: "cold:2"}, {C: ("docker.io/library/cold:2", "c1")}, {C: "c1"}, True,
    ),
    "another image of the same content": (
        {**V1, C: "cold:2"}, {C: ("docker.io/library/cold:1", "c1")}, {C: "c1"}, False,
    ),
    "no state of this set": ({**V1, C: "cold:2"}, {C: ("cold:1", "c1")}, {}, True),
    "a digest that runs": (
        {C: f"cold@{DIGEST}", H1: f"hot@{DIGEST}", H2: f"e@{DIGEST}"},
        {
            C: ("", f"docker-pullable://docker.io/library/cold@{DIGEST}"),
            H1: ("", f"hot@{DIGEST}"), H2: ("", f"e@{DIGEST}"),
        },
        None, True,
    ),
    "another digest": (
        {C: f"cold@{DIGEST}", H1: f"hot@{DIGEST}", H2: f"e@{DIGEST}"},
        {C: ("", f"cold@sha256:{'b' * 64}")}, None, False,
    ),
    "quirk: an image id without a name says nothing about digests": (
        {**V1, C: f"cold@{DIGEST}"}, {C: ("x", f"sha256:{'c' * 64}")}, None, True,
    ),
}  # fmt: skip


def pod_of(
    images: Mapping[str, str], shown: Statuses, before: Mapping[str, str] | None
) -> dict[str, Any]:
    containers = [{"name": "main", "image": "nginx"}]
    containers += [{"name": name, "image": image} for name, image in images.items()]
    raw = injected(SET, containers=containers)
    for status in raw["status"]["containerStatuses"]:
        if status["name"] in shown:
            image, image_id = shown[status["name"]]
            status |= {"image": image, "imageID": image_id}
    if before is not None:
        last = {name: {"imageID": image_id} for name, image_id in before.items()}
        state = {"revision": "h", "updateTimestamp": None, "lastContainerStatuses": last}
        raw["metadata"]["annotations"][STATE] = json.dumps({"ss": state} if before else {})
    return raw


@pytest.mark.parametrize(("images", "shown", "before", "complete"), ROWS.values(), ids=ROWS)
def test_row(
    images: Mapping[str, str], shown: Statuses, before: Mapping[str, str] | None, complete: bool
) -> None:
    judged = MatchCriteria(sidecarset_facts(SET)).judge(pod_facts(pod_of(images, shown, before)))
    assert judged.consistent is complete
    assert bool(judged.late) is not complete, "the container is ready, so it is waited for"


def test_a_state_that_cannot_be_read_is_never_complete() -> None:
    raw = injected(SET, annotations={STATE: "{"})
    assert not MatchCriteria(sidecarset_facts(SET)).judge(pod_facts(raw)).consistent


def test_nothing_is_complete_while_a_status_is_missing() -> None:
    raw = injected(SET)
    raw["status"]["containerStatuses"].pop()
    assert not MatchCriteria(sidecarset_facts(SET)).judge(pod_facts(raw)).consistent


def _broken(**changes: Any) -> dict[str, Any]:
    raw = injected(SET)
    raw["metadata"] |= changes.get("metadata", {})
    raw["status"] |= changes.get("status", {})
    return raw


def _without(name: str) -> dict[str, Any]:
    raw = injected(SET)
    raw["spec"]["containers"] = [c for c in raw["spec"]["containers"] if c["name"] != name]
    return raw


LISTED: Final = injected(SET)["metadata"]["annotations"]
MATCHES: Final[dict[str, tuple[Obj, bool]]] = {
    "born under it": (injected(SET), True),
    "finished": (_broken(status={"phase": "Succeeded"}), False),
    "terminating": (
        _broken(metadata={"deletionTimestamp": "2026-07-02T10:00:00Z"}), False
    ),
    "other labels": (_broken(metadata={"labels": {"app": "redis"}}), False),
    "older than the set": (_broken(metadata={"annotations": {}}), False),
    "listed under a longer name": (
        _broken(metadata={"annotations": {**LISTED, "kruise.io/sidecarset-injected-list": "ss2"}}),
        False,
    ),
    "without a cold container": (_without(C), False),
    "without one of a hot pair": (_without(H2), False),
    "without a working container on record": (
        _broken(
            metadata={
                "annotations": {
                    **LISTED, "kruise.io/sidecarset-working-hotupgrade-container": "{}"
                }
            }
        ),
        False,
    ),
}  # fmt: skip


@pytest.mark.parametrize(("raw", "is_"), MATCHES.values(), ids=MATCHES)
def test_matched(raw: Obj, is_: bool) -> None:
    assert bool(matched(sidecarset_facts(SET), [pod_facts(raw)])) is is_


def test_a_cold_sidecar_may_be_an_init_container() -> None:
    raw = _without(C)
    raw["spec"]["initContainers"] = [{"name": C, "image": "cold:1", "restartPolicy": "Always"}]
    assert matched(sidecarset_facts(SET), [pod_facts(raw)])


def test_side_71_a_pod_wakes_the_sets_it_lists() -> None:
    notes = {"kruise.io/sidecarset-injected-list": "a,c"}
    assert [key.name for key in named_by(notes)] == ["a", "c"]
    assert named_by({}) == []


def test_ready_for_the_set_means_that_no_hot_sidecar_is_between_two_versions() -> None:
    raw = injected(SET)
    criteria = MatchCriteria(sidecarset_facts(SET))
    assert criteria.judge(pod_facts(raw)).up
    raw["spec"]["containers"][3]["image"] = "hot:2"
    raw["status"]["containerStatuses"][3] = running({"name": H2, "image": "hot:2"})
    judged = criteria.judge(pod_facts(raw))
    assert (judged.consistent, judged.serving, judged.rested, judged.up) == (
        True, True, False, False
    )  # fmt: skip
    nameless = sidecarset(hot("hot:1", name="hot-sidecar", empty=""))
    facts = replace(sidecarset_facts(nameless), name="ss")
    assert MatchCriteria(facts).judge(pod_facts(raw)).rested, (
        "nothing is asked of a set without EMPTY"
    )
