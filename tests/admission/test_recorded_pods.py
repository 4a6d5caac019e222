"""Pods are stored as a recorded kube-apiserver 1.34 stored them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.admission.writes import admitted

ORACLE = Path(__file__).parents[1] / "oracle" / "pods.jsonl"
ROWS: list[dict[str, Any]] = [json.loads(line) for line in ORACLE.read_text().splitlines()]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row["pod"]["metadata"]["name"])
def test_defaults(row: dict[str, Any]) -> None:
    stored = admitted(row["pod"])
    assert stored["spec"] == row["spec"]
    assert admitted(stored)["spec"] == row["spec"], "a second pass changes nothing"
