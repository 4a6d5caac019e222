"""Rollouts recorded from OpenKruise on a real API server, played on the World."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import pytest
import yaml

from tests.conformance.play import FILES, Player, even

FOLDER: Final = Path(__file__).parent
TRACES: Final = json.loads((FOLDER / "traces.json").read_text())


def scenarios() -> dict[str, Any]:
    """By name."""
    found: dict[str, Any] = {}
    for file in FILES:
        for doc in yaml.safe_load_all((FOLDER / file).read_text()):
            found[doc["name"]] = doc
    return found


SCENARIOS: Final = scenarios()


@pytest.mark.parametrize("name", SCENARIOS)
def test_replay(name: str) -> None:
    played, recorded = even(Player(SCENARIOS[name]).play()), even(TRACES[name])
    for at, (mine, theirs) in enumerate(zip(played, recorded, strict=False)):
        assert mine == theirs, f"observation {at}"
    assert len(played) == len(recorded)
