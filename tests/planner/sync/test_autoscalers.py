"""Workloads sized by an autoscaler."""

from __future__ import annotations

import pytest

from gitkruise.planner.sync.autoscale import target_of
from gitkruise.wire.primitives.names import Obj

HPA, KEDA = "HorizontalPodAutoscaler", "ScaledObject"
CLONESET = {"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "name": "web"}


@pytest.mark.parametrize(
    ("kind", "target", "expected"),
    [
        pytest.param(HPA, CLONESET, "apps.kruise.io CloneSet shop/web", id="a CloneSet"),
        pytest.param(HPA, {"kind": "ReplicationController", "name": "web"},
                     " ReplicationController shop/web", id="the core group"),
        pytest.param(HPA, {}, None, id="none"),
        pytest.param(KEDA, CLONESET, "apps.kruise.io CloneSet shop/web", id="KEDA: a CloneSet"),
        pytest.param(KEDA, {"name": "web"}, "apps Deployment shop/web", id="KEDA: a name alone"),
        pytest.param(KEDA, {"kind": "StatefulSet", "name": "web"}, "apps StatefulSet shop/web",
                     id="KEDA: a kind of apps/v1"),
        pytest.param(KEDA, {"kind": "Deployment"}, None, id="KEDA: no target"),
    ],
)  # fmt: skip
def test_target(kind: str, target: Obj, expected: str | None) -> None:
    autoscaler = {
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {"scaleTargetRef": target},
    }
    found = target_of(autoscaler)
    text = found and f"{found.group} {found.kind} {found.namespace}/{found.name}"
    assert text == expected
