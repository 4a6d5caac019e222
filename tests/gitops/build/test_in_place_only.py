"""Changes that InPlaceOnly forbids, of each kind that updates pods in place."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.gitops.build.in_place_only import in_place_problems
from gitkruise.model.workloads.feature_gates import Gates
from tests.planner.statefulset.build import GATE, advanced
from tests.planner.sync.build import desired
from tests.worlds import SPACE, cloneset


def clones(image: str, **pod: Any) -> Any:
    made = cloneset(image=image, podUpdatePolicy="InPlaceOnly")
    made["spec"]["template"]["spec"] |= pod
    return made


def stateful(image: str, **pod: Any) -> Any:
    return advanced(image=image, pod={**GATE, **pod}, rolling={"podUpdatePolicy": "InPlaceOnly"})


@pytest.mark.parametrize("made", [clones, stateful])
def test_a_change_that_needs_new_pods_is_named(made: Any) -> None:
    def found(new: Any) -> list[str]:
        placed = {**new, "metadata": {**new["metadata"], "namespace": SPACE}}
        problems = in_place_problems(desired(placed), made("app:v1"), Gates())
        return [f"{p.code} {p.message}" for p in problems]

    assert found(made("app:v2")) == []
    (message,) = found(made("app:v1", hostNetwork=True))
    assert message.startswith("GK2104 InPlaceOnly forbids this change of ")
    assert message.endswith(": spec.hostNetwork")
