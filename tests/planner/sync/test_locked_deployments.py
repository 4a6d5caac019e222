"""Commits on a Deployment that a lock leads to its canary: the amounts with which they are sent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gitkruise.model.planning.canary import ANNOTATION, GIT_PAUSE, LOCK, PAUSED
from gitkruise.model.planning.canary_lock import CanaryLock, locked_spec
from gitkruise.planner.sync.canary_pause import as_sent
from gitkruise.wire.primitives.paths import get
from tests.planner.sync.build import desired
from tests.worlds import SPACE, deployment

HELD: dict[str, Any] = {"paused": True}


def git(image: str, **spec: Any) -> Any:
    obj: Any = deployment(replicas=3, image=f"app:{image}", **spec)
    obj["metadata"] |= {"namespace": SPACE, "annotations": {ANNOTATION: "1"}}
    return obj


def locked(
    unavailable: int | str, *, updated: int = 1, ready: int = 3, surge: str = "25%", **spec: Any
) -> Any:
    """A Deployment of v2 whose lock has no surge and one unavailable pod."""
    lock = CanaryLock(surge=surge, unavailable=unavailable, begun=True, canary="b", stable="a")
    live = git("v2")
    live["metadata"]["annotations"][LOCK] = lock.text
    if spec.get("paused"):
        live["metadata"]["annotations"][PAUSED] = "b/1/a"
    live["spec"] |= {**locked_spec(0, 1), **spec}
    live["status"] = {"updatedReplicas": updated, "readyReplicas": ready}
    return live


# live, the image or canary that git asks for: the amounts sent, surge first
ROWS: dict[str, tuple[Any, str, tuple[int | str, int | str]]] = {
    "on the way: all that the user allows": (locked(1), "v3", ("25%", 1)),
    "at the pause": (locked(1, **HELD), "v3", (0, 1)),
    "at the pause, no pod to spare": (locked("25%", **HELD), "v3", (1, 0)),
    "at the pause, the one to spare is not ready": (locked(1, ready=2, **HELD), "v3", (1, 0)),
    "the same without surge": (locked(1, ready=2, surge="0%", **HELD), "v3", (0, 1)),
    "the same template": (locked(1), "v2", (0, 1)),
    "the pause ends": (locked("25%", **HELD), "2", (0, 1)),
    "the pause of no pods ends": (locked("25%", updated=0, **HELD), "2", (1, 0)),
    "the pause of no pods ends, one to spare": (locked(1, updated=0, **HELD), "2", (0, 1)),
}


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_the_amounts_that_are_sent(row: Any) -> None:
    live, asked, amounts = row
    asked_for = git(asked if asked.startswith("v") else "v2")
    if not asked.startswith("v"):
        asked_for["metadata"]["annotations"][ANNOTATION] = asked
    notes = {**live["metadata"]["annotations"], **asked_for["metadata"]["annotations"]}
    spec = {**live["spec"], "template": asked_for["spec"]["template"]}
    applied = {**live, "metadata": {**live["metadata"], "annotations": notes}, "spec": spec}
    sent = as_sent(desired(asked_for), live, applied).obj
    rolling = get(sent, "spec", "strategy", "rollingUpdate")
    assert (rolling["maxSurge"], rolling["maxUnavailable"]) == amounts
    assert get(sent, "spec", "paused") is (asked == "v3")


def test_a_strategy_without_amounts_gets_none() -> None:
    live = locked(1)
    asked = git("v3", strategy={"type": "Recreate"})
    assert get(as_sent(desired(asked), live, live).obj, "spec", "strategy") == {"type": "Recreate"}


def by_git(live: Any) -> Any:
    """The same Deployment, which git pauses in the place of the canary."""
    live["metadata"]["annotations"] |= {GIT_PAUSE: "true"}
    live["metadata"]["annotations"].pop(PAUSED, None)
    return live


# live, what git asks for: whether git's pause is marked, `paused`, and whether the lock is in force
PAUSES: dict[str, tuple[Any, Any, tuple[bool, bool, bool]]] = {
    "on the way": (locked(1), git("v2", paused=True), (True, True, True)),
    "at the pause of the canary": (
        locked(1, **HELD), git("v2", paused=True), (False, True, True)),
    "with another template": (locked(1, **HELD), git("v3", paused=True), (True, True, True)),
    "still": (by_git(locked(1, **HELD)), git("v3", paused=True), (True, True, True)),
    "the end: the canary of the template waits": (
        by_git(locked(1, **HELD)), git("v2"), (False, True, False)),
    "the end, written": (
        by_git(locked(1, **HELD)), git("v2", paused=False), (False, True, False)),
}  # fmt: skip


@pytest.mark.parametrize("row", PAUSES.values(), ids=PAUSES)
def test_can_38_a_pause_by_git_stops_the_lock_where_it_is(row: Any) -> None:
    live, asked_for, wanted = row
    applied = {**live, "spec": {**live["spec"], "template": asked_for["spec"]["template"]}}
    sent = as_sent(desired(asked_for), live, applied).obj
    notes = sent["metadata"]["annotations"]
    begun = json.loads(notes[LOCK])["begun"]
    assert (notes.get(GIT_PAUSE) == "true", get(sent, "spec", "paused"), begun) == wanted
