"""Recorded creates and updates of SidecarSets are accepted and refused as OpenKruise did."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.errors import ApiError
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import MERGE_PATCH, ApiRequest, ResourceRef
from tests.admission.recorded import validation_rows
from tests.worlds import START, create, empty_world

ALPHA = ResourceRef("apps.kruise.io", "v1alpha1", "sidecarsets")


# OpenKruise admits it, and then no pod of its selector (test_a_hot_upgrade_needs_its_empty_image).
DONE_BETTER = "hot without empty image"
ROWS = [row for row in validation_rows("SidecarSet") if row["case"] != DONE_BETTER]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: f"{row['operation']}: {row['case']}")
def test_recorded_answer(row: dict[str, Any]) -> None:
    """A denial with status 500 is an invalid object here (see test_quirk_denials)."""
    world = empty_world()
    name = row["manifest"]["metadata"]["name"]
    request = create(world, row["manifest"])
    if row["operation"] == "update":
        world.handle(request, START)
        request = ApiRequest(
            verb="patch", resource=ALPHA, name=name, body=row["patch"], content_type=MERGE_PATCH
        )
    if "rejected" in row:
        with pytest.raises(ApiError) as refusal:
            world.handle(request, START)
        assert {cause.field for cause in refusal.value.details.causes} == set(row["fields"])
        assert refusal.value.status == 422
        return
    world.handle(request, START)
    stored = world.get(ObjectKey(*SIDECARSET, "", name))
    assert stored is not None
    assert stored["spec"] == row["accepted"]
