"""A plan counts the pods that go with a workload as they are, not as its manifest asks."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.gitops.preview.changes import changes_between
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.planner.report.blast_radius import footprint
from gitkruise.wire.primitives.names import Obj
from tests.planner.sync.build import desired

# status of the live object, generation, pods that go with it; 3 are asked for
ROWS: list[tuple[str, dict[str, Any], int, int]] = [
    ("of git alone", {}, 0, 3),
    ("a rollout with a surge", {"observedGeneration": 2, "replicas": 4}, 2, 4),
    ("no pod was created yet", {"observedGeneration": 2}, 2, 0),
    ("its controller has not read it", {"observedGeneration": 1, "replicas": 5}, 2, 3),
    ("no controller writes its status", {"replicas": 5}, 2, 3),
]


@pytest.mark.parametrize("kind", ["Deployment", "StatefulSet", "ReplicaSet"])
@pytest.mark.parametrize(
    ("status", "generation", "gone"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS]
)
def test_the_pods_of_a_removed_workload_are_counted_as_they_are(
    kind: str, status: Obj, generation: int, gone: int
) -> None:
    obj: Obj = {
        "apiVersion": "apps/v1",
        "kind": kind,
        "metadata": {"name": "web", "namespace": "shop"},
        "spec": {
            "replicas": 3,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "app", "image": "app:v1"}]},
            },
        },
    }
    (found,) = changes_between([desired(obj)], [], load_catalog())
    live = {**obj, "metadata": {**obj["metadata"], "generation": generation}, "status": status}
    assert footprint(replace(found, before=live)).gone == gone
