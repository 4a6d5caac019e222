"""Conditions of pods as the grid draws them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitkruise.dashboard.pod_rows import PodState, pod_state
from gitkruise.model.workloads.pod import PodFacts

NOW = datetime(2026, 11, 25, tzinfo=UTC)
ROWS: dict[str, tuple[dict[str, Any], PodState]] = {
    "ready": ({}, PodState.READY),
    "not ready": ({"ready": False}, PodState.STARTING),
    "pending": ({"ready": False, "phase": "Pending"}, PodState.STARTING),
    "in place": ({"in_place": False, "ready": False}, PodState.UPDATING),
    "in place and done": ({"in_place": True}, PodState.READY),
    "being deleted": ({"deleting": NOW}, PodState.TERMINATING),
    "ended": ({"phase": "Succeeded", "ready": False}, PodState.ENDED),
}


@pytest.mark.parametrize("row", ROWS)
def test_condition_of_a_pod(row: str) -> None:
    changes, expected = ROWS[row]
    facts = {"name": "a", "phase": "Running", "ready": True, **changes}
    assert pod_state(PodFacts(**facts), {}) is expected


def test_a_failing_pod_says_why_unless_it_is_being_deleted() -> None:
    running = PodFacts(name="a", phase="Running", ready=True)
    assert pod_state(running, {"a": "image cannot be pulled"}) is PodState.FAILING
    leaving = PodFacts(name="a", deleting=NOW)
    assert pod_state(leaving, {"a": "image cannot be pulled"}) is PodState.TERMINATING
