"""A cluster on virtual time: repeatable, quiet in the end, loud about hot loops."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import Create, Plan
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.builtin.deployment import DEPLOYMENT
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef
from gitkruise.world.api.cluster import World
from gitkruise.world.kubelet.profiles import GENERAL
from gitkruise.world.simulation.simulation import NeverQuietError, Simulation
from tests.traces import render_text
from tests.worlds import SPACE, START, Lab, cloneset, container, deployment, parts_of, pod


def image(name: str, **rolling: Any) -> dict[str, Any]:
    fields = {"template": {"spec": {"containers": [container(image=name)]}}}
    return {"spec": {**fields, "updateStrategy": {"rollingUpdate": rolling}}}


def test_a_held_cloneset_rollout(golden: Callable[[str, str], None]) -> None:
    lab, web = Lab(), cloneset(replicas=5, maxUnavailable=2)
    lab.apply(web)
    lab.run()
    lab.patch(web, image("app:v2", partition=2))
    held = lab.run()
    lab.patch(web, {"spec": {"updateStrategy": {"rollingUpdate": {"partition": 0}}}})
    golden("cloneset-held-rollout.txt", render_text(held) + "\n" + render_text(lab.run()))


def test_the_same_inputs_give_the_same_trace() -> None:
    traces = []
    for _ in range(2):
        lab = Lab(profile=GENERAL)
        lab.apply(cloneset(replicas=4))
        lab.apply(deployment("api", 3))
        traces.append(repr(lab.run().lines))
    assert traces[0] == traces[1]
    assert traces[0].count("what='ready'") == 7


def test_time_jumps_to_what_is_due_and_stops_where_asked() -> None:
    lab = Lab()
    lab.apply(pod())
    trace = lab.run(1.5)
    assert (trace.quiet, trace.end) == (False, START + timedelta(seconds=1.5))
    trace = lab.run(3600)
    assert (trace.quiet, trace.end) == (True, START + timedelta(seconds=2))


def test_a_fresh_run_finds_what_is_there() -> None:
    lab = Lab()
    lab.apply(deployment())
    later = START + timedelta(hours=1)
    trace = Simulation(lab.world, parts_of(GENERAL), [DEPLOYMENT], Gates(), START).run_until(later)
    assert [line.what for line in trace.lines] == ["CreateReplicaSet", "PatchDeployment"]


class Restless:
    """A part that changes something at every look."""

    def run(self, world: World, now: datetime) -> datetime | None:
        request = ApiRequest(
            verb="create",
            resource=ResourceRef("", "v1", "configmaps"),
            namespace=SPACE,
            body={"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "x-"}},
        )
        world.handle(request, now)
        return None


def test_a_hot_loop_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gitkruise.world.simulation.simulation.ROUNDS_MAX", 20)
    lab = Lab(parts=[Restless()])
    with pytest.raises(NeverQuietError):
        lab.run()


def test_a_refused_action_is_tried_again_with_growing_pauses() -> None:
    lab = Lab()

    def refuse(request: ApiRequest, now: datetime) -> ApiReply:
        if request.verb == "create":
            raise Forbidden("quota")
        return lab.world.handle(request, now)

    lab.simulation.send = refuse
    lab.apply(deployment())
    trace = lab.run(20)
    at = [(line.at - START).total_seconds() for line in trace.only("CreateReplicaSet")]
    assert at == [0, 0, 2, 6, 14]  # the status that it wrote wakes it once immediately
    assert trace.lines[0].why == "Refused: quota"


def test_why_a_pod_is_held_is_stated_once() -> None:
    lab, web = Lab(), cloneset(replicas=3, maxUnavailable=1)
    lab.apply(web)
    lab.run()
    lab.patch(web, image("app:v2", partition=2))
    held = [(line.object, line.why) for line in lab.run().only("held")]
    assert len(held) == len(set(held))


def test_only_workloads_that_are_driven_act() -> None:
    def decide(snapshot: Any, gates: Gates) -> Plan:
        del snapshot, gates
        obj: Obj = {**pod("made"), "metadata": {"name": "made", "namespace": SPACE}}
        return Plan(actions=(Create(obj=obj),))

    lab = Lab(parts=())
    lab.apply(deployment())
    fake = replace(DEPLOYMENT, decide=decide)
    Simulation(lab.world, [], [fake], Gates(), START).run_until(START)
    assert [p["metadata"]["name"] for p in lab.pods()] == ["made"]
