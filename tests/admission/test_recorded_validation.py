"""Recorded creates and updates of CloneSets are accepted and refused as OpenKruise did."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from tests.admission.recorded import validation_rows
from tests.admission.writes import fields, refusal, stored


def merged(target: Any, patch: Any) -> Any:
    """A JSON merge patch, as the recorded updates were made."""
    if not isinstance(patch, Mapping):
        return patch
    out = dict(target) if isinstance(target, Mapping) else {}
    for key, value in patch.items():
        if value is None:
            out.pop(key, None)
        else:
            out[key] = merged(out.get(key), value)
    return out


@pytest.mark.parametrize(
    "row", validation_rows("CloneSet"), ids=lambda row: f"{row['operation']}: {row['case']}"
)
def test_recorded_answer(row: dict[str, Any]) -> None:
    manifest, old = row["manifest"], None
    if row["operation"] == "update":
        old = stored(manifest)
        manifest = merged(old, row["patch"])
    error = refusal(manifest, old)
    if "accepted" in row:
        assert error is None
        assert stored(manifest, old)["spec"] == row["accepted"]
    else:
        assert error
        assert error.status == row["rejected"]
        assert fields(error) == set(row["fields"])
