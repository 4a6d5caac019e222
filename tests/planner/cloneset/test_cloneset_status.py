"""Status and its conditions: counters, Progressing, and when there is nothing to write."""

from __future__ import annotations

from datetime import timedelta
from typing import Any, Final

import pytest

from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.planner.cloneset.status import is_interim, progressing
from tests.planner.cloneset.build import NEW_NAME, OLD_NAME, cloneset, plan
from tests.pods import NOW, pods, stamp

FIELDS: Final = (
    "replicas",
    "readyReplicas",
    "availableReplicas",
    "updatedReplicas",
    "updatedReadyReplicas",
    "updatedAvailableReplicas",
    "expectedUpdatedReplicas",
)
MARKS: Final = {"n": NEW_NAME, "o": OLD_NAME}


def counts(text: str) -> dict[str, int]:
    return dict(zip(FIELDS, map(int, text.split("/")), strict=True))


def judged(
    text: str,
    *,
    reason: str = "",
    age_s: float = 0,
    before: str = "",
    same: bool = False,
    generation: int = 1,
    **spec: Any,
) -> tuple[str | None, float | None]:
    """(reason of Progressing, seconds until the next look) for the counters `text`."""
    update = {"paused": spec.pop("paused", False)}
    old: dict[str, Any] = {
        **counts(before or text),
        "updateRevision": "r2",
        "currentRevision": "r2" if same else "r1",
        "observedGeneration": 1,
    }
    held = ({"type": "Progressing", "status": "True", "reason": reason, "message": "m",
             "lastUpdateTime": stamp(-age_s)},) if reason else ()  # fmt: skip
    spec.setdefault("progressDeadlineSeconds", 10)
    owner = cloneset_facts(cloneset(update=update, status=old, **spec))
    now = {**old, **counts(text), "observedGeneration": generation}
    made, wake = progressing(owner, now, held, NOW)
    found = next((c["reason"] for c in made if c["type"] == "Progressing"), None)
    return found, (wake - NOW).total_seconds() if wake else None


S5, S8 = "10/8/8/10/8/8/10", "6/6/6/4/4/4/6"
ROWS: Final[dict[str, tuple[dict[str, Any], tuple[str | None, float | None]]]] = {
    "PROG-1 no deadline": (
        {"text": S5, "replicas": 10, "progressDeadlineSeconds": None, "reason": "CloneSetUpdated"},
        (None, None),
    ),
    "PROG-2 deadline without end": (
        {"text": S5, "replicas": 10, "progressDeadlineSeconds": 2147483647, "reason": "x"},
        (None, None),
    ),
    "PROG-3 first rollout": ({"text": "5/4/3/2/1/1/5", "replicas": 5}, ("CloneSetUpdated", 11)),
    "PROG-4 scaling out": (
        {"text": "5/5/5/5/5/5/10", "replicas": 10, "same": True, "reason": "CloneSetAvailable"},
        ("CloneSetUpdated", 11),
    ),
    "PROG-5 too long": (
        {"text": S5, "replicas": 10, "reason": "CloneSetUpdated", "age_s": 60},
        ("ProgressDeadlineExceeded", None),
    ),
    "PROG-6 one replica": (
        {"text": "1/0/0/0/0/0/1", "replicas": 1, "reason": "CloneSetAvailable"},
        ("CloneSetUpdated", 11),
    ),
    "PROG-7 scaled in below a partition": (
        {"text": "10/9/9/8/6/6/8", "replicas": 6, "reason": "CloneSetUpdated"},
        ("CloneSetUpdated", 11),
    ),
    "PROG-8 too long while scaling": (
        {"text": S8, "replicas": 6, "reason": "CloneSetUpdated", "age_s": 60},
        ("ProgressDeadlineExceeded", None),
    ),
    "PROG-9 on the way to a partition": (
        {"text": "15/14/14/10/10/9/10", "replicas": 20, "reason": "CloneSetUpdated"},
        ("CloneSetUpdated", 11),
    ),
    "PROG-10 resumed": (
        {"text": "15/14/14/10/10/9/10", "replicas": 20, "reason": "CloneSetPaused", "age_s": 60},
        ("CloneSetUpdated", 11),
    ),
    "PROG-11 scaled out beyond a partition reached": (
        {"text": "15/15/15/6/6/6/10", "replicas": 20, "reason": "ProgressPartitionAvailable"},
        ("CloneSetUpdated", 11),
    ),
    "PROG-12 partition reached": (
        {"text": "20/20/20/10/10/10/10", "replicas": 20, "reason": "ProgressPartitionAvailable"},
        ("ProgressPartitionAvailable", None),
    ),
    "PROG-13 paused": (
        {"text": "5/4/4/2/2/2/5", "replicas": 5, "paused": True},
        ("CloneSetPaused", None),
    ),
    "PROG-14 in time": (
        {"text": "10/5/5/5/3/1/10", "replicas": 10, "reason": "CloneSetUpdated", "age_s": 7},
        ("CloneSetUpdated", 4),
    ),
    "available": (
        {"text": "5/5/5/5/5/5/5", "replicas": 5, "same": True, "reason": "CloneSetUpdated"},
        ("CloneSetAvailable", None),
    ),
    "exceeded stays": (
        {"text": S5, "replicas": 10, "reason": "ProgressDeadlineExceeded", "age_s": 1},
        ("ProgressDeadlineExceeded", None),
    ),
}


@pytest.mark.parametrize(("given", "wanted"), ROWS.values(), ids=ROWS)
def test_progressing(given: dict[str, Any], wanted: tuple[str | None, float | None]) -> None:
    assert judged(**given) == wanted


def test_quirk_a_quiet_day_does_not_fail_the_next_rollout() -> None:
    """In OpenKruise the age of CloneSetAvailable counts against the new rollout's deadline."""
    text = "5/5/5/0/0/0/5"
    assert judged(text, replicas=5, reason="CloneSetAvailable", age_s=86400)[0] == "CloneSetUpdated"


def test_quirk_progress_renews_the_deadline() -> None:
    """In OpenKruise the deadline runs from the first pod on, however well the rollout goes."""
    now, before = "10/10/9/6/5/5/10", "10/10/9/5/5/5/10"
    given: dict[str, Any] = {"replicas": 10, "reason": "CloneSetUpdated", "age_s": 60}
    assert judged(now, before=before, **given) == ("CloneSetUpdated", 11)


def test_quirk_an_exceeded_deadline_ends_when_pods_move_again() -> None:
    """In OpenKruise it outlives new revisions and resumed pauses."""
    given: dict[str, Any] = {"replicas": 10, "reason": "ProgressDeadlineExceeded", "age_s": 60}
    assert judged(S5, before="10/8/8/10/7/7/10", **given)[0] == "CloneSetUpdated"


EXCEEDED: Final[dict[str, tuple[str, str]]] = {
    "replicas grow": ("5/3/3/5/3/3/5", "8/3/3/8/3/3/8"),
    "replicas shrink": ("5/3/3/5/3/3/5", "4/3/3/4/3/3/4"),
    "old pods are added below the partition": ("5/4/4/2/1/1/2", "8/7/7/2/1/1/2"),
    "partition falls": ("5/4/4/2/1/1/2", "5/4/4/2/1/1/4"),
}


@pytest.mark.parametrize(("before", "now"), EXCEEDED.values(), ids=EXCEEDED)
def test_st_28_an_exceeded_deadline_outlives_scaling(before: str, now: str) -> None:
    replicas = int(now.partition("/")[0])
    given: dict[str, Any] = {"reason": "ProgressDeadlineExceeded", "age_s": 60, "generation": 2}
    found = judged(now, before=before, replicas=replicas, **given)
    assert found == ("ProgressDeadlineExceeded", None)


def test_counters() -> None:
    made = plan(cloneset(update={"partition": 2}), pods("2o+ o- n+ n[U]+", MARKS)).status
    assert made is not None
    assert [made[name] for name in FIELDS] == [5, 4, 3, 2, 2, 1, 3]
    assert made["updateRevision"] == NEW_NAME
    assert made["labelSelector"] == "app=web"


def test_min_ready_seconds_delay_availability() -> None:
    fleet = pods("5n+", MARKS)  # ready for an hour
    raw = cloneset(minReadySeconds=3600)
    made = plan(raw, fleet)
    assert made.status is not None
    assert made.status["availableReplicas"] == 0
    assert made.wake_at is not None
    later = plan(raw, fleet, now=made.wake_at)
    assert later.status is not None
    assert later.status["availableReplicas"] == 5
    assert made.wake_at - NOW < timedelta(seconds=1)


def test_current_follows_update_once_all_pods_carry_it() -> None:
    status = {"currentRevision": OLD_NAME}
    made = plan(cloneset(status=status), pods("5n-", MARKS)).status
    assert made is not None
    assert made["currentRevision"] == NEW_NAME


def test_nothing_new_writes_nothing() -> None:
    fleet = pods("5n+", MARKS)
    first = plan(cloneset(), fleet).status
    assert first is not None
    again = plan(cloneset(status=first), fleet)
    assert again.status is None
    assert again.actions == ()
    assert again.wake_at is None


def test_no_status_before_the_new_revision_exists() -> None:
    """observedGeneration with the old revision would read as a finished rollout."""
    made = plan(cloneset(), pods("5o+", MARKS), revisions=())
    assert made.status is None
    assert made.actions


def test_a_failed_update_is_cleared_when_nothing_fails() -> None:
    failed = {"type": "FailedUpdate", "status": "True", "message": "pod web-9: no"}
    made = plan(cloneset(status={"conditions": [failed]}), pods("5n+", MARKS)).status
    assert made is not None
    assert [(c["type"], c["status"]) for c in made["conditions"]] == [("FailedUpdate", "False")]


KNOWN: Final[dict[str, Any]] = {
    **counts("10/8/8/4/2/2/10"),
    "observedGeneration": 2,
    "updateRevision": "r2",
    "conditions": [{"type": "Progressing", "status": "True", "lastUpdateTime": stamp(-9)}],
}
NEWS: Final[dict[str, tuple[dict[str, Any], bool]]] = {
    "more pods": ({"updatedReplicas": 5, "updatedReadyReplicas": 3}, True),
    "fewer pods": ({"replicas": 9, "readyReplicas": 7}, True),
    "time": ({"conditions": [{**KNOWN["conditions"][0], "lastUpdateTime": stamp(0)}]}, True),
    "all available": ({"readyReplicas": 10, "availableReplicas": 10}, False),
    "none left": (counts("0/0/0/0/0/0/0"), False),
    "another goal": ({"expectedUpdatedReplicas": 4}, False),
    "generation": ({"observedGeneration": 3}, False),
    "revision": ({"updateRevision": "r3"}, False),
    "condition": ({"conditions": [{"type": "Progressing", "status": "False"}]}, False),
    "one condition more": (
        {"conditions": [*KNOWN["conditions"], {"type": "FailedScale", "status": "True"}]},
        False,
    ),
    "no condition": ({"conditions": []}, False),
}


@pytest.mark.parametrize(("news", "interim"), NEWS.values(), ids=NEWS)
def test_counts_of_pods_under_way_may_be_late(news: dict[str, Any], interim: bool) -> None:
    """ST-16, ST-17."""
    assert is_interim(KNOWN, {**KNOWN, **news}) is interim
