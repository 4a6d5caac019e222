"""A plan assumes what its model does not hold: nodes that fit, configuration, opened gates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gitkruise.gitops.preview.changes import changes_between
from gitkruise.gitops.preview.simulate import live_world, offline_world, play, rollout_objects
from gitkruise.kube.system.package_data import load_catalog
from gitkruise.model.planning.forecast import RolloutForecast
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.sandbox.backend.cluster import Cluster
from gitkruise.sandbox.handlers.inprocess import WorldTransport
from gitkruise.wire.primitives.names import Obj
from tests.gitops.plans import side
from tests.planner.sync.build import desired
from tests.worlds import SPACE, START, Lab, cloneset

CATALOG = load_catalog()
REPLICAS = 4


def _read(kind: str) -> dict[str, Any]:
    return {"env": [{"name": "X", "valueFrom": {kind: {"name": "conf", "key": "k"}}}]}


# What pods read or wait for, as fields of their spec.
ANYWHERE: dict[str, Obj] = {
    "a key of a Secret": {"containers": _read("secretKeyRef")},
    "a key of a ConfigMap": {"containers": _read("configMapKeyRef")},
    "all of a Secret": {"containers": {"envFrom": [{"secretRef": {"name": "conf"}}]}},
    "a volume of a Secret": {"volumes": [{"name": "v", "secret": {"secretName": "conf"}}]},
    "a volume of a ConfigMap": {"volumes": [{"name": "v", "configMap": {"name": "conf"}}]},
    "a class of priority": {"priorityClassName": "high"},
    "a readiness gate": {"readinessGates": [{"conditionType": "example.com/balanced"}]},
    "a scheduling gate": {"schedulingGates": [{"name": "example.com/queue"}]},
}
NODES: dict[str, Obj] = {
    "a label of nodes": {"nodeSelector": {"disk": "ssd"}},
    "a device": {"containers": {"resources": {"limits": {"example.com/gpu": "1"}}}},
    "a large node": {"containers": {"resources": {"requests": {"memory": "900Gi"}}}},
}
ALL: dict[str, Obj] = {**ANYWHERE, **NODES}


def web(fields: Obj, image: str) -> Obj:
    made = cloneset("web", REPLICAS, image)
    spec = made["spec"]["template"]["spec"]
    spec["containers"][0].update(fields.get("containers", {}))
    spec.update({name: value for name, value in fields.items() if name != "containers"})
    return {**made, "metadata": {**made["metadata"], "namespace": SPACE}}


def planned(world: Any, fields: Obj, now: Any, *, live: bool) -> RolloutForecast:
    target = [desired(web(fields, "app:v2"))]
    changes = changes_between([desired(web(fields, "app:v1"))], target, CATALOG)
    played = play(world, changes, side(target), CATALOG, now, Gates(), live=live)
    assert not played.findings
    assert played.forecast is not None
    return played.forecast.rollouts[0]


@pytest.mark.parametrize("fields", ALL.values(), ids=ALL)
def test_a_plan_without_a_cluster_takes_what_pods_need_for_given(fields: Obj) -> None:
    base = [desired(web(fields, "app:v1"))]
    world, now = offline_world([base], CATALOG, Gates(), START, moved={base[0].key})
    rollout = planned(world, fields, now, live=False)
    assert (rollout.hold, rollout.updated_after) == ("", REPLICAS)
    assert len([move for step in rollout.steps for move in step.moves]) == REPLICAS


@pytest.mark.parametrize("fields", ANYWHERE.values(), ids=ANYWHERE)
def test_a_plan_of_live_pods_takes_what_it_does_not_read_for_given(fields: Obj) -> None:
    lab = Lab()
    lab.apply(web({}, "app:v1"))
    lab.run()
    rollout = planned(_copied(lab), fields, lab.now, live=True)
    assert (rollout.hold, rollout.updated_after) == ("", REPLICAS)


def test_a_plan_of_live_pods_knows_the_nodes() -> None:
    lab = Lab()
    lab.apply(web({}, "app:v1"))
    lab.run()
    rollout = planned(_copied(lab), NODES["a label of nodes"], lab.now, live=True)
    assert rollout.hold == "Stuck"


def test_a_plan_of_live_pods_knows_no_room_where_the_cluster_shows_no_nodes() -> None:
    lab = Lab()
    lab.apply(web({}, "app:v1"))
    lab.run()
    recreated = ANYWHERE["a class of priority"]
    rollout = planned(_copied(lab, without="Node"), recreated, lab.now, live=True)
    assert (rollout.hold, rollout.updated_after) == ("", REPLICAS)


def _copied(lab: Lab, *, without: str = "") -> Any:
    transport = WorldTransport(Cluster(lab.world, lambda: lab.now))
    found = asyncio.run(rollout_objects(transport, CATALOG, [SPACE], kinds=(), served=CATALOG))
    return live_world([obj for obj in found if obj["kind"] != without], CATALOG, Gates())
