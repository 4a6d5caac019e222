"""The next step where a rollout of a plan stops: a command only where it edits the file."""

from __future__ import annotations

import pytest

from gitkruise.planner.report.stops import next_move
from gitkruise.wire.primitives.names import ObjectKey

KEY = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")


def test_a_manifest_is_edited_by_a_command() -> None:
    assert next_move("promote", KEY, "apps/web.yaml:1") == "gitkruise promote cloneset/web -n shop"


@pytest.mark.parametrize(
    "source",
    ["charts/web/templates/app.yaml:1", "templates/app.yaml:7", "web/charts/db-1.0.0.tgz:0"],
)
def test_an_object_of_a_chart_is_changed_by_a_commit(source: str) -> None:
    step = next_move("promote", KEY, source)
    assert step == f"a commit that changes the values of its chart ({source})"
