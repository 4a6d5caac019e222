"""A plan foresees how a WorkloadSpread divides the pods of a rollout."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Final

import pytest

from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.render_json import rollout_obj
from gitkruise.gitops.preview.simulate import live_world, offline_world, play, rollout_objects
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.gitops.document import Desired
from gitkruise.model.gitops.report import PodEffects
from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.report.blast_radius import footprint, unforeseen
from gitkruise.planner.report.forecast import rollout_view
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from tests.gitops.plans import side
from tests.planner.sync.build import desired
from tests.worlds import SPACE, START, Lab, cloneset, deployment, spread, subset

CATALOG: Final = load_catalog()
BY_ZONE: Final = (subset("zone-a", 8, zone="zone-a"), subset("zone-b", zone="zone-b"))


def placed(obj: Obj) -> Desired:
    return desired({**obj, "metadata": {**obj["metadata"], "namespace": SPACE}})


def zones(*subsets: Obj, kind: str = "CloneSet") -> Desired:
    return placed(spread("zones", *(subsets or BY_ZONE), kind=kind))


def foreseen(
    world: Any, base: Sequence[Desired], target: Sequence[Desired], now: Any, gates: Gates
) -> tuple[RolloutForecast, str]:
    changes = changes_between(base, target, CATALOG)
    played = play(world, changes, side(target), CATALOG, now, gates, live=False)
    assert not played.findings
    assert played.forecast is not None
    (rollout,) = played.forecast.rollouts
    (change,) = (c for c in changes if c.key == rollout.key)
    return rollout, " ".join(rollout_view(change, rollout, (), live=True).notes)


def offline(
    base: Sequence[Desired], target: Sequence[Desired], gates: Gates | None = None
) -> tuple[RolloutForecast, str]:
    chosen = gates or Gates()
    moved = {target[0].key}
    world, now = offline_world([base], CATALOG, chosen, START, moved=moved)
    return foreseen(world, base, target, now, chosen)


def counts(rollout: RolloutForecast) -> dict[str, int]:
    assert rollout.division is not None
    return dict(rollout.division.subsets)


def test_ws_70_pods_of_a_new_cloneset_by_subset() -> None:
    rollout, notes = offline([], [placed(cloneset(replicas=12)), zones()])
    assert notes == "12 pods by WorkloadSpread zones: 8 in zone-a, 4 in zone-b"
    subsets = [{"name": "zone-a", "pods": 8}, {"name": "zone-b", "pods": 4}]
    assert rollout_obj(rollout)["workloadSpread"] == {"name": "zones", "subsets": subsets}


@pytest.mark.parametrize(
    ("replicas", "expected"),
    [(6, {"zone-a": 6, "zone-b": 0}), (10, {"zone-a": 8, "zone-b": 2})],
    ids=["in", "out"],
)
def test_ws_70_scaling(replicas: int, expected: dict[str, int]) -> None:
    base = [placed(cloneset(replicas=9)), zones()]
    rollout, _ = offline(base, [placed(cloneset(replicas=replicas)), zones()])
    assert counts(rollout) == expected


def test_ws_70_a_recreating_rollout_keeps_the_division() -> None:
    old, new = (
        placed(cloneset("web", 12, image, podUpdatePolicy="ReCreate"))
        for image in ("app:v1", "app:v2")
    )
    rollout, _ = offline([old, zones()], [new, zones()])
    assert (rollout.hold, rollout.updated_after) == ("", 12)
    assert counts(rollout) == {"zone-a": 8, "zone-b": 4}


def test_ws_70_a_deployment() -> None:
    rented = zones(*BY_ZONE, kind="Deployment")
    old, new = (placed(deployment("web", 12, image)) for image in ("app:v1", "app:v2"))
    rollout, notes = offline([old, rented], [new, rented])
    assert counts(rollout) == {"zone-a": 8, "zone-b": 4}
    assert "12 pods by WorkloadSpread zones" in notes


def test_ws_70_a_spread_of_the_same_commit() -> None:
    changed = zones(subset("zone-a", 2, zone="zone-a"), subset("zone-b", zone="zone-b"))
    base = [placed(cloneset(replicas=4)), zones()]
    rollout, _ = offline(base, [placed(cloneset(replicas=6)), changed])
    assert counts(rollout) == {"zone-a": 4, "zone-b": 2}


def test_pods_of_no_subset_are_counted() -> None:
    full = zones(subset("zone-a", 2, zone="zone-a"), subset("zone-b", 2, zone="zone-b"))
    rollout, notes = offline([], [placed(cloneset(replicas=5)), full])
    assert counts(rollout) == {"zone-a": 2, "zone-b": 2, "": 1}
    assert notes.endswith("1 in no subset")


def test_without_a_spread_or_its_gate_nothing_is_stated() -> None:
    rollout, notes = offline([], [placed(cloneset(replicas=5))])
    assert (rollout.division, notes) == (None, "")
    assert "workloadSpread" not in rollout_obj(rollout)
    off = Gates(workload_spread=False)
    rollout, _ = offline([], [placed(cloneset(replicas=5))], off)
    assert rollout.division is None


def test_ws_70_a_live_cluster() -> None:
    lab = Lab(nodes=6)
    lab.apply(spread("zones", *BY_ZONE))
    base = placed(cloneset(replicas=9))
    lab.apply(base.obj)
    lab.run(60)
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))
    found = asyncio.run(
        rollout_objects(transport, CATALOG, [SPACE], kinds=[base.key.group_kind], served=CATALOG)
    )
    target = [placed(cloneset(replicas=12))]
    rollout, _ = foreseen(live_world(found, CATALOG, Gates()), [base], target, lab.now, Gates())
    assert counts(rollout) == {"zone-a": 8, "zone-b": 4}


def test_a_changed_spread_alone_moves_no_pod() -> None:
    base = [placed(cloneset(replicas=4)), zones()]
    target = [base[0], zones(subset("zone-a", 1, zone="zone-a"), subset("zone-b", zone="zone-b"))]
    changes = changes_between(base, target, CATALOG)
    (change,) = (c for c in changes if c.key == target[1].key)
    assert unforeseen(change) == ""
    assert footprint(change) == PodEffects()
