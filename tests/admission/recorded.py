"""Recorded answers of a real OpenKruise to creates and updates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

VALIDATION = Path(__file__).parents[1] / "oracle" / "validation.jsonl"


def validation_rows(kind: str) -> list[dict[str, Any]]:
    """The recorded creates and updates of a kind."""
    rows = map(json.loads, VALIDATION.read_text().strip().split("\n"))
    return [row for row in rows if row["kind"] == kind]
