"""A pod is resized as a kube-apiserver 1.34 allows it."""

from __future__ import annotations

from typing import Any

import pytest

from gitkruise.wire.primitives.paths import put
from tests.admission.writes import admitted, fields, refusal
from tests.worlds import container, pod

AT = "spec.containers[0].resources"


def sized(resources: Any, **more: Any) -> Any:
    return pod("p", container(resources=resources), **more)


BEFORE = {"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "128Mi"}}


@pytest.mark.parametrize(
    ("change", "refused"),
    [
        ({}, set()),
        ({("requests", "cpu"): "200m"}, set()),
        ({("limits", "cpu"): "1"}, set()),
        ({("requests", "memory"): "256Mi"}, {f"{AT}.requests"}),
        ({("requests", "ephemeral-storage"): "1Gi"}, {"spec"}),
        (
            {("requests", "cpu"): "1", ("limits", "cpu"): "1", ("requests", "memory"): "128Mi"},
            {"spec"},
        ),
    ],
)
def test_cpu_and_memory_change_within_a_class(change: Any, refused: set[str]) -> None:
    after: Any = BEFORE
    for path, amount in change.items():
        after = put(after, path, amount)
    old = admitted(sized(BEFORE))
    new = put(old, ("spec", "containers", 0, "resources"), after)
    assert fields(refusal(new, old, subresource="resize")) == refused


@pytest.mark.parametrize("side", ["requests", "limits"])
def test_amounts_are_not_removed(side: str) -> None:
    more = {"cpu": "1"} if side == "limits" else {}  # a limit gives a request its default
    old = admitted(sized({**BEFORE, "limits": {"memory": "128Mi", **more}}))
    kept = {"memory": old["spec"]["containers"][0]["resources"][side]["memory"]}
    new = put(old, ("spec", "containers", 0, "resources", side), kept)
    assert fields(refusal(new, old, subresource="resize")) == {f"{AT}.{side}"}
