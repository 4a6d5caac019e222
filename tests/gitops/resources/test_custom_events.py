"""Kubernetes Events of sources and units: one for each change of readiness or commit, as
`kubectl describe` shows them."""

from __future__ import annotations

from typing import Any, Final

import pytest

from gitkruise.app import controller
from gitkruise.gitops.resources.conditions import event_of, events_of
from gitkruise.model.planning.plan import Event
from gitkruise.wire.primitives.names import GroupKind
from tests.gitops.objects import House, play
from tests.gitops.reconcile.test_two_instances import SlowWire
from tests.gitops.stage import config_map, web

OBJECTS: Final = {"Unit": "web", "GitSource": "src"}


def events_about(hands: House, kind: str) -> list[tuple[str, str]]:
    """(type, reason) of the Events of the objects of a kind, oldest first, with repeats."""
    found = [
        event
        for event in hands.stage.world.objects(GroupKind("", "Event"), "shop")
        if event["involvedObject"]["kind"] == kind
    ]
    ordered = sorted(
        found, key=lambda e: (e["firstTimestamp"], int(e["metadata"]["resourceVersion"]))
    )
    return [(e["type"], e["reason"]) for e in ordered for _ in range(e["count"])]


@pytest.mark.slow
def test_a_unit_and_its_source_report_what_becomes_of_commits(hands: House) -> None:
    first = hands.push(web=[web("app:v1")])

    async def script() -> None:
        stage = hands.stage
        async with controller(hands.program(), stage.wire, stage.clock):
            await commits(hands, first)
        # Each request takes a while, so that a status could be written before the first look.
        async with controller(hands.program(), SlowWire(stage.cluster), stage.clock):
            await nothing_new(hands)

    hands.stage.play(script)


async def commits(hands: House, first: str) -> None:
    """A commit that succeeds, one that is held, one that is rejected."""
    await hands.source()
    await hands.unit("web")
    await hands.rest(60)
    assert events_about(hands, "Unit")[-1] == ("Normal", "Succeeded")
    assert events_about(hands, "GitSource") == [("Normal", "Succeeded")]
    (event,) = [
        e
        for e in hands.stage.world.objects(GroupKind("", "Event"), "shop")
        if e["involvedObject"]["kind"] == "Unit" and e["reason"] == "Succeeded"
    ]
    assert event["message"].endswith(f"(commit {first[:7]})")
    assert event["involvedObject"]["uid"] == hands.get("Unit", "web")["metadata"]["uid"]
    before = len(events_about(hands, "Unit"))
    hands.push(web=[web("app:v2", partition=3)])
    await hands.rest(60)
    assert events_about(hands, "Unit")[before:] == [("Normal", "Progressing"), ("Normal", "Held")]
    hands.push(web=[web("app:v2", maxUnavailable="many")])
    await hands.rest(60)
    assert events_about(hands, "Unit")[before + 2 :] == [("Warning", "BuildFailed")]
    assert events_about(hands, "GitSource") == [("Normal", "Succeeded")] * 3


async def nothing_new(hands: House) -> None:
    """After a start nothing is told twice, and what is known is not forgotten meanwhile."""
    before = {kind: events_about(hands, kind) for kind in OBJECTS}
    statuses = {kind: hands.status(kind, name) for kind, name in OBJECTS.items()}
    for _ in range(600):
        await hands.rest(0.1)
        assert {kind: hands.status(kind, name) for kind, name in OBJECTS.items()} == statuses
    assert {kind: events_about(hands, kind) for kind in OBJECTS} == before


@pytest.mark.slow
def test_a_suspended_unit_is_no_warning(hands: House) -> None:
    hands.push(a=[config_map("a", x="1")])

    async def script(hands: House) -> None:
        await hands.source()
        await hands.unit("a")
        await hands.rest()
        await hands.unit("a", suspend={"by": "dana", "reason": "freeze"})
        await hands.rest()
        assert events_about(hands, "Unit")[-1] == ("Normal", "Suspended")

    play(hands, script)


def status(ready: str, reason: str, message: str = "m", **more: Any) -> dict[str, Any]:
    return {**more, "conditions": [{"type": "Ready", "status": ready, "reason": reason,
                                    "message": message}]}  # fmt: skip


A = "main@sha1:" + "a" * 40
B = "main@sha1:" + "b" * 40
DONE = status("True", "Succeeded", causalRevision=A, lastAttemptedRevision=A)
BAD = status("False", "BuildFailed", causalRevision=A, lastAttemptedRevision=B)
ROWS = [
    (None, DONE, Event("Normal", "Succeeded", "m (commit aaaaaaa)")),
    (None, status("Unknown", "Progressing", "not looked at yet"), None),
    ({}, status("Unknown", "Progressing"), None),
    (DONE, DONE, None),
    (DONE, {**DONE, "lastAttemptedRevision": B}, None),  # a commit that does not change the unit
    (DONE, status("True", "Succeeded", "5/5", causalRevision=A), None),
    (DONE, {**DONE, "causalRevision": B}, Event("Normal", "Succeeded", "m (commit bbbbbbb)")),
    (None, {**DONE, "artifact": "oci://a/b@sha256:c"},
     Event("Normal", "Succeeded", "m (artifact aaaaaaa)")),
    (DONE, BAD, Event("Warning", "BuildFailed", "m (commit bbbbbbb)")),
    (BAD, {**BAD, "lastAttemptedRevision": A},
     Event("Warning", "BuildFailed", "m (commit aaaaaaa)")),
    (DONE, status("False", "ApprovalRequired"), Event("Normal", "ApprovalRequired", "m")),
    (status("True", "Succeeded", f"at {A}", revision=A),
     status("True", "Succeeded", f"at {B}", revision=B), Event("Normal", "Succeeded", f"at {B}")),
]  # fmt: skip


def test_a_record_that_cannot_be_written_is_news() -> None:
    def published(status_: str, reason: str, why: str = "") -> dict[str, Any]:
        condition = {"type": "StatusPublished", "status": status_, "reason": reason, "message": why}
        return {**DONE, "conditions": [*DONE["conditions"], condition]}

    fine, refused = published("True", "Published"), published("False", "PushRejected", "protected")
    assert [*events_of(fine, refused)] == [Event("Warning", "PushRejected", "protected")]
    assert [*events_of(refused, fine)] == [
        Event("Normal", "Published", "the record is in git again")
    ]
    for before, after in ((DONE, fine), (fine, fine), (refused, refused), (refused, DONE)):
        assert [*events_of(before, after)] == []
    assert len([*events_of(None, refused)]) == 2


@pytest.mark.parametrize(("before", "after", "event"), ROWS)
def test_what_is_news(before: Any, after: Any, event: Event | None) -> None:
    assert event_of(before, after) == event
