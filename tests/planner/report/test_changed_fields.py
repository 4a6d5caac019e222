"""The remark on a changed field of a template: what its change does to running pods."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.model.gitops.change import ChangeKind, FieldChange, ObjectChange
from gitkruise.model.gitops.document import FieldPath
from gitkruise.planner.report.changed_fields import field_rows
from gitkruise.wire.primitives.names import ObjectKey

KEY = ObjectKey("apps.kruise.io", "CloneSet", "shop", "web")
IN_PLACE = "can be done in place"
WITH_GATE = "in place only with InPlaceWorkloadVerticalScaling"
NEW_PODS = "cannot be done in place"


@pytest.mark.parametrize(
    ("path", "remark"),
    [
        (("spec", "containers", 0, "image"), IN_PLACE),
        (("metadata", "labels", "version"), IN_PLACE),
        (("metadata", "annotations"), IN_PLACE),
        (("spec", "containers", 0, "resources", "limits", "cpu"), WITH_GATE),
        (("spec", "containers", 0, "imagePullPolicy"), NEW_PODS),
        (("spec", "initContainers", 0, "image"), NEW_PODS),
        (("spec", "initContainers", 0, "resources", "limits", "cpu"), NEW_PODS),
        (("spec", "resources", "limits", "cpu"), NEW_PODS),
    ],
    ids=lambda value: ".".join(map(str, value)) if isinstance(value, tuple) else "",
)
def test_a_field_of_a_template_says_what_it_does_to_pods(path: FieldPath, remark: str) -> None:
    spec: dict[str, Any] = {"updateStrategy": {"type": "InPlaceIfPossible"}}
    field = FieldChange(path=("spec", "template", *path), before="1", after="2")
    change = ObjectChange(
        kind=ChangeKind.CONFIGURE, key=KEY, before={"spec": spec}, after={"spec": spec},
        fields=(field,),
    )  # fmt: skip
    (row,) = field_rows(change, None, bytes(32))
    assert (row.remark, row.loud) == (remark, remark != IN_PLACE)
