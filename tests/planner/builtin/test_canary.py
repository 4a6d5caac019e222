"""Canary pause of a Deployment: where a rollout pauses, and what edits of a paused one do.

Rows are those of docs/behaviour/deployment-canary.md: sizes of ReplicaSets in the order of their
versions after each sync.
"""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from gitkruise.model.planning.canary import Canary, canary_of
from tests.planner.builtin.played import GO, RESUMED, Played, at_canary, started, version_of

AMOUNTS = {
    "CAN-1": ("3", 10, 3),
    "CAN-2": ("10", 10, None),
    "CAN-3": ("100%", 10, None),
    "CAN-4a": ("25%", 10, 3),
    "CAN-4b": ("90%", 3, 2),
    "CAN-4c": ("30%", 1, None),
    "CAN-5a": ("0", 10, 0),
    "CAN-5b": ("0%", 10, 0),
}


@pytest.mark.parametrize(("text", "replicas", "pods"), AMOUNTS.values(), ids=AMOUNTS)
def test_amounts(text: str, replicas: int, pods: int | None) -> None:
    assert Canary(text).pods(replicas) == pods


@pytest.mark.parametrize("text", ["-1", "", " ", "x", "1.5", "3 %", "%", "12345678901", "٣"])
def test_can_6_garbage_is_no_canary(text: str) -> None:
    with pytest.raises(ValueError, match="neither a number of pods nor a percentage"):
        canary_of({"canary": text})


def test_can_7_the_qualified_annotation_wins() -> None:
    assert canary_of({"canary": "x", "gitkruise.io/canary": "3"}) == Canary("3")
    assert canary_of({"canary": "20%"}) == Canary("20%")


# (replicas, maxSurge, maxUnavailable, canary): sizes after each sync
SETTLING: dict[str, tuple[int, Any, Any, str, str]] = {
    "CAN-44": (10, 2, 1, "3", "9,2 9,3 7,3 paused"),
    "CAN-45": (10, 0, 1, "3", "9,0 9,1 8,1 8,2 7,2 7,3 paused"),
    "CAN-46": (10, 2, 0, "3", "10,2 8,2 8,3 7,3 paused"),
    "CAN-47": (10, "25%", "25%", "30%", "8,3 7,3 paused"),
    "CAN-48": (10, 0, 5, "3", "7,0 7,3 paused"),
    "CAN-49": (10, 5, 5, "3", "7,3 paused"),
    "CAN-50": (10, 3, 0, "25%", "10,3 7,3 paused"),
    "CAN-51": (3, 1, 0, "90%", "3,1 2,1 2,2 1,2 paused"),
    "CAN-52": (7, 1, 1, "33%", "6,1 6,2 4,2 4,3 paused"),
    "CAN-53": (4, "25%", "25%", "2", "3,1 3,2 2,2 paused"),
    "CAN-54": (100, "10%", "5%", "1%", "99,1 paused"),
    "CAN-55": (10, 2, 1, "1", "9,1 paused"),
    "CAN-56": (10, 2, 1, "9", "9,2 9,3 6,3 6,6 3,6 3,9 1,9 paused"),
    "CAN-57": (10, 2, 1, "0", "10,0 paused"),
    "CAN-58a": (10, 2, 1, "10", "9,2 9,3 6,3 6,6 3,6 3,9 0,9 0,10"),
    "CAN-58b": (10, 2, 1, "15", "9,2 9,3 6,3 6,6 3,6 3,9 0,9 0,10"),
    "CAN-58c": (10, 2, 1, "100%", "9,2 9,3 6,3 6,6 3,6 3,9 0,9 0,10"),
    "CAN-59": (1, 1, 0, "30%", "1,1 0,1"),
}


def without_pause(lines: list[str]) -> str:
    """The trace; sizes that stayed while `paused` was written are listed once."""
    kept = [a for a, b in zip(lines, [*lines[1:], ""], strict=True) if f"{a} paused" != b]
    return " ".join(kept)


@pytest.mark.parametrize("row", SETTLING.values(), ids=SETTLING)
def test_settling(row: tuple[int, Any, Any, str, str]) -> None:
    replicas, surge, down, canary, trace = row
    played = started(replicas, surge, down, canary)
    played.edit(image="v2")
    assert without_pause(played.settle()) == trace
    assert played.paused == trace.endswith("paused")
    assert played.settle() == [played.line]


def test_the_pause_is_reported_once_and_is_one_write() -> None:
    played = at_canary()
    assert played.events.count("CanaryPaused") == 1
    assert played.raw["metadata"]["annotations"]["gitkruise.io/canary"] == "3"


def test_can_60_a_first_rollout_is_not_gated() -> None:
    played = Played(10, 2, 1, "3")
    assert played.settle()[-1] == "10"
    assert not played.paused


def test_can_61_a_finished_rollout_is_never_gated_again() -> None:
    played = started(3, 1, 0, "3")
    played.edit(image="v2")
    assert played.settle()[-1] == "0,3"
    played.edit(replicas=10)
    assert played.settle()[-1] == "0,10"


def test_can_62_the_gate_appears_when_replicas_grow_past_the_value() -> None:
    played = started(10, 2, 1, "12")
    played.edit(image="v2")
    until(played, "9,3")
    played.edit(replicas=20)
    lines = played.settle()
    assert (lines[0], lines[-1]) == ("17,5", "8,12 paused")


def test_can_63_a_running_rollout_is_not_gated() -> None:
    played = started(10, 2, 1)
    played.edit(image="v2")
    until(played, "6,3")
    played.edit(canary="3")
    assert played.settle()[-1] == "0,10"


def until(played: Played, line: str) -> None:
    for _ in range(40):
        if played.line == line:
            return
        played.sync()
        played.step_kubelets()
    raise AssertionError(f"{line} was never reached: {played.line}")


# (replicas, maxSurge, maxUnavailable): the end when no pod of v2 is ever available, canary 3
NEVER_READY = {
    "CAN-64": (10, 2, 1, "9,3"),
    "CAN-65": (10, 0, 1, "9,1"),
    "CAN-66": (10, 3, 0, "10,3"),
    "CAN-67": (10, 0, 3, "7,3 paused"),
}


@pytest.mark.parametrize("row", NEVER_READY.values(), ids=NEVER_READY)
def test_pods_that_are_never_ready(row: tuple[int, int, int, str]) -> None:
    replicas, surge, down, end = row
    played = started(replicas, surge, down, "3")
    played.available = lambda one: 0 if version_of(one) == "v2" else one["spec"]["replicas"]
    played.edit(image="v2")
    assert played.settle()[-1] == end
    played.now += timedelta(seconds=700)
    played.settle()
    reasons = {c["type"]: c["reason"] for c in played.raw["status"]["conditions"]}
    late = "DeploymentPaused" if end.endswith("paused") else "ProgressDeadlineExceeded"
    assert reasons["Progressing"] == late
    assert played.line == end


# edits of CAN-44's end, each one update followed by syncs until all is quiet: the last line of each
AFTER: dict[str, list[tuple[dict[str, Any], str]]] = {
    "CAN-68": [(GO, "0,10")],
    "CAN-69": [({**GO, "canary": "5"}, "5,5 paused"), (GO, "0,10")],
    "CAN-70": [({**GO, "canary": "2"}, "7,3 paused"), (GO, "0,10")],
    "CAN-71": [({**GO, "canary": None}, "0,10")],
    "CAN-72": [({"canary": "5"}, "7,3 paused")],
    "CAN-74": [({"image": "v3"}, "7,3 paused")],
    "CAN-75": [
        ({"image": "v3"}, "7,3 paused"), (GO, "7,0,3 paused"), (GO, "0,0,10"),
    ],
    "CAN-77": [({"image": "v1"}, "7,3 paused")],
    "CAN-78": [({"image": "v1"}, "7,3 paused"), (GO, "10,0")],
    "CAN-85": [({"replicas": 20}, "14,6 paused")],
    "CAN-86": [({"replicas": 12}, "8,4 paused")],
    "CAN-87": [({"replicas": 11}, "8,3 paused")],
    "CAN-88": [({"replicas": 10}, "7,3 paused")],
    "CAN-89": [({"replicas": 9}, "6,3 paused")],
    "CAN-90": [({"replicas": 5}, "3,2 paused")],
    "CAN-91": [({"replicas": 4}, "2,2 paused")],
    "CAN-92": [({"replicas": 3}, "2,1 paused")],
    "CAN-93": [({"replicas": 2}, "1,1 paused")],
    "CAN-94": [({"replicas": 1}, "0,1 paused")],
    "CAN-95": [({"replicas": 0}, "0,0 paused")],
    "CAN-96": [({"replicas": 0}, "0,0 paused"), ({"replicas": 5}, "2,3 paused")],
    "CAN-97": [({"replicas": 1}, "0,1 paused"), ({"replicas": 10}, "7,3 paused")],
}  # fmt: skip


@pytest.mark.parametrize("edits", AFTER.values(), ids=AFTER)
def test_after_the_pause(edits: list[tuple[dict[str, Any], str]]) -> None:
    played = at_canary()
    for changes, end in edits:
        played.edit(**changes)
        assert played.settle()[-1] == end


@pytest.mark.parametrize("steps", RESUMED.values(), ids=RESUMED)
def test_a_new_value_is_a_new_pause(steps: Any) -> None:
    at_canary().play(steps)


def approved() -> Played:
    """CAN-68, approved at 3, on its way to all pods."""
    played = at_canary()
    played.edit(paused=False)
    until(played, "7,5")
    return played


def test_can_28_a_value_that_was_approved_before_pauses_again_after_another_one() -> None:
    played = approved()
    played.edit(canary="5")
    assert played.settle()[-1] == "5,5 paused"
    played.edit(canary="3", paused=False)
    assert played.settle()[-1] == "5,5 paused"
    played.edit(paused=False)
    assert played.settle()[-1] == "0,10"


def test_can_28_a_value_without_a_gate_ends_an_approval_as_well() -> None:
    played = approved()
    played.edit(canary="100%")
    played.sync()
    played.edit(canary="3")
    assert played.settle()[-1] == "5,5 paused"


def test_can_28_a_lower_value_pauses_where_the_rollout_is() -> None:
    played = approved()
    played.edit(canary="2")
    assert played.settle()[-1] == "5,5 paused"


def test_can_68_every_step_after_the_end_of_a_pause() -> None:
    played = at_canary()
    played.edit(paused=False)
    assert played.settle() == ["7,3", "7,5", "4,5", "4,8", "1,8", "1,10", "0,10"]


def test_can_73_a_value_that_is_raised_later_gates_again() -> None:
    played = at_canary()
    played.edit(paused=False)
    until(played, "4,5")
    played.edit(canary="6")
    assert played.settle()[-1] == "4,6 paused"


def test_can_75_an_abandoned_canary_makes_room_for_the_next_one() -> None:
    played = at_canary()
    played.edit(image="v3")
    played.settle()
    played.edit(paused=False)
    assert without_pause(played.settle()) == "7,3 7,2,2 7,2,3 7,0,3 paused"


def test_can_76_the_stable_one_is_not_the_largest() -> None:
    played = started(10, 2, 1, "80%")
    played.edit(image="v2")
    assert played.settle()[-1] == "2,8 paused"
    played.edit(image="v3", paused=False)
    lines = played.settle()
    assert lines[-1] == "2,0,8 paused"
    assert {line.partition(",")[0] for line in lines} == {"2"}


def test_can_79_a_rollback_to_running_pods_is_not_gated() -> None:
    played = started(10, 2, 1, "50%")
    played.edit(image="v2")
    assert played.settle()[-1] == "5,5 paused"
    played.edit(image="v1", paused=False)
    assert played.settle()[-1] == "10,0"


def test_can_80_an_unapproved_canary_stays_unapproved() -> None:
    played = at_canary()
    played.edit(image="v1", paused=False)
    until(played, "9,3")
    played.edit(image="v2")
    assert played.settle()[-1] == "7,3 paused"


def test_can_81_an_approved_canary_is_not_the_stable_one() -> None:
    played = at_canary()
    played.edit(paused=False)
    until(played, "7,5")
    played.edit(image="v3")
    assert played.settle()[-1] == "7,0,3 paused"


def test_can_82_a_pause_before_a_sync_is_still_that_of_the_canary() -> None:
    played = at_canary()
    played.edit(paused=False)
    played.edit(paused=True)
    assert played.settle() == ["7,3 paused"]


def test_can_83_crashes_of_the_canary_move_nothing() -> None:
    played = at_canary()
    played.available = lambda one: 0 if version_of(one) == "v2" else one["spec"]["replicas"]
    played.step_kubelets()
    assert played.settle() == ["7,3 paused"]


def test_can_84_a_resized_replica_set_is_balanced_by_the_largest() -> None:
    played = at_canary()
    played.resize("v2", 5)
    assert played.settle()[-1] == "5,5 paused"


def test_can_98_a_percentage_follows_the_scale() -> None:
    played = started(10, 2, 1, "30%")
    played.edit(image="v2")
    played.settle()
    played.edit(replicas=20)
    assert played.settle()[-1] == "14,6 paused"


def test_can_99_scaling_up_never_passes_the_canary() -> None:
    played = started(10, 2, 1, "3")
    played.edit(image="v2")
    until(played, "9,2")
    played.edit(replicas=20)
    assert without_pause(played.settle()) == "19,3 17,3 paused"


def test_can_100_scaling_down_in_the_middle() -> None:
    played = started(10, 2, 1, "3")
    played.edit(image="v2")
    until(played, "9,2")
    played.edit(replicas=4)
    assert without_pause(played.settle()) == "5,1 2,1 2,3 1,3 paused"


def test_can_101_a_percentage_falls_below_the_pods_that_run() -> None:
    played = started(10, 2, 1, "50%")
    played.edit(image="v2")
    until(played, "6,5")
    played.edit(replicas=4)
    assert without_pause(played.settle()) == "3,3 1,3 paused"


def test_can_8_an_invalid_value_is_ignored_and_reported_once_per_rollout() -> None:
    played = started(10, 2, 1, "three")
    played.events.clear()
    played.edit(image="v2")
    assert played.settle()[-1] == "0,10"
    assert played.events.count("InvalidCanary") == 1


def test_can_8_recreate_knows_no_canary() -> None:
    played = started(4, 1, 1, "1")
    played.edit(strategy={"type": "Recreate", "rollingUpdate": None})
    played.edit(image="v2")
    assert played.settle()[-1] == "0,4"


def test_can_23_a_pause_of_the_user_has_no_mark_and_adds_the_surge() -> None:
    played = started(10, 2, 1, "3")
    played.edit(image="v2")
    until(played, "9,2")
    played.edit(paused=True)
    assert played.settle()[-1] == "10,2"
    assert not played.paused_by_canary
    played.edit(paused=False)
    assert played.settle()[-1] == "7,3 paused"


def test_can_18_a_raised_value_moves_no_pod_until_the_pause_ends() -> None:
    """Scaling up may give the canary its first pods, and never takes one from the stable one."""
    played = started(10, 2, 1, "0")
    played.edit(image="v2")
    played.settle()
    played.edit(canary="5")
    assert played.settle() == ["10,0 paused"]
    played.edit(replicas=12)
    assert played.settle()[-1] == "10,2 paused"
    played.edit(replicas=11, canary=None)
    assert played.settle()[-1] == "9,2 paused"


def test_can_24_history_never_loses_the_replica_sets_of_a_pause() -> None:
    played = started(10, 2, 1, "3")
    played.edit(revisionHistoryLimit=0, image="v2")
    played.settle()
    played.edit(replicas=0)
    assert played.settle()[-1] == "0,0 paused"
    played.edit(replicas=5)
    assert played.settle()[-1] == "2,3 paused"


def test_can_16_a_rollout_at_its_canary_that_is_short_of_pods_is_refilled() -> None:
    played = started(10, 2, 1, "3")
    played.edit(image="v2")
    until(played, "7,3")
    played.resize("v1", 5)
    assert played.settle()[-1] == "7,3 paused"


def test_can_25_the_marks_are_never_copied() -> None:
    played = at_canary()
    for one in played.sets:
        assert "gitkruise.io/canary" not in one["metadata"]["annotations"]
    played.edit(image="v1", paused=False)
    played.settle()
    assert "gitkruise.io/canary-paused" not in played.raw["metadata"]["annotations"]


@pytest.mark.parametrize("writes", [0, 1, 2])
def test_can_26_a_controller_that_ends_between_two_writes_changes_no_end(writes: int) -> None:
    """Each sync is cut short once before it is repeated by the next controller."""
    played = at_canary()
    played.edit(image="v3", paused=False)
    for _ in range(30):
        played.sync(writes=writes)
        played.step_kubelets()
        played.sync()
        played.step_kubelets()
    assert played.settle() == ["7,0,3 paused"]
