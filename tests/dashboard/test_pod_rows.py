"""Conditions of pods as the grid draws them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from gitkruise.dashboard.pod_rows import CellShape, cell_shape
from gitkruise.model.workloads.pod import PodFacts

NOW = datetime(2026, 11, 25, tzinfo=UTC)
ROWS: dict[str, tuple[dict[str, Any], CellShape]] = {
    "ready": ({}, CellShape.READY),
    "not ready": ({"ready": False}, CellShape.STARTING),
    "pending": ({"ready": False, "phase": "Pending"}, CellShape.STARTING),
    "in place": ({"in_place": False, "ready": False}, CellShape.UPDATING),
    "in place and done": ({"in_place": True}, CellShape.READY),
    "being deleted": ({"deleting": NOW}, CellShape.TERMINATING),
    "ended": ({"phase": "Succeeded", "ready": False}, CellShape.ENDED),
}


@pytest.mark.parametrize("row", ROWS)
def test_condition_of_a_pod(row: str) -> None:
    changes, expected = ROWS[row]
    facts = {"name": "a", "phase": "Running", "ready": True, **changes}
    assert cell_shape(PodFacts(**facts), {}) is expected


def test_a_failing_pod_says_why_unless_it_is_being_deleted() -> None:
    running = PodFacts(name="a", phase="Running", ready=True)
    assert cell_shape(running, {"a": "image cannot be pulled"}) is CellShape.FAILING
    leaving = PodFacts(name="a", deleting=NOW)
    assert cell_shape(leaving, {"a": "image cannot be pulled"}) is CellShape.TERMINATING
