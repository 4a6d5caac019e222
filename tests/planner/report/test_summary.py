"""Values of fields in sentences: as a manifest may have them."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.planner.report.summary import shown


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "unset"),
        (True, "true"),
        ("50%", "50%"),
        ({"paused": True, "partition": None}, '{"paused": true, "partition": null}'),
        ([{"name": "é"}], '[{"name": "é"}]'),
        (["x" * 100], '["' + "x" * 57 + "…"),
    ],
)
def test_a_value_is_shown_as_in_a_manifest(value: Any, text: str) -> None:
    assert shown(value) == text
