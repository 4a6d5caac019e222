"""Laws of a rollout, held against every write of the controller while requests fail."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from hypothesis import example, given, settings
from hypothesis import strategies as st

from gitkruise.errors import ApiError, Conflict, GatewayTimeout, Unavailable
from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.workloads.cloneset import CloneSetFacts, cloneset_facts
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.cloneset.observe import observe_cloneset
from gitkruise.planner.cloneset.plan import plan_cloneset
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.requests import ApiReply, ApiRequest, ResourceRef
from tests.laws.examples import one_in
from tests.laws.judge import after, gate_closed, guarded
from tests.worlds import SPACE, Lab, cloneset

WEB: Final = ObjectKey("apps.kruise.io", "CloneSet", SPACE, "web")
NO_FAULT, CONFLICT, LOST, DOWN = range(4)


@dataclass
class Judge:
    """Stands between the controller and the cluster: fails requests, and checks each write
    against the truth just before it takes effect."""

    lab: Lab
    faults: list[int] = field(default_factory=list)
    broken: list[str] = field(default_factory=list)
    disruptions: int = 0

    def __call__(self, request: ApiRequest, now: datetime) -> ApiReply:
        fault = self.faults.pop() if self.faults and request.verb != "get" else NO_FAULT
        if fault == CONFLICT:
            raise Conflict("the object has been modified")
        if fault == DOWN:
            raise Unavailable("try again")
        if request.resource.plural == "pods":
            self.check(request, now)
        reply = self.lab.world.handle(request, now, user="cloneset-controller")
        if fault == LOST:
            raise GatewayTimeout("the answer was lost")
        return reply

    @property
    def owner(self) -> CloneSetFacts:
        raw = self.lab.world.get(WEB)
        assert raw is not None
        return cloneset_facts(raw)

    def active(self) -> list[PodFacts]:
        return [p for p in self.lab.world.pods_of(self.owner.uid, SPACE) if p.active]

    def disruptive(self, request: ApiRequest) -> bool:
        """A delete, or the first step of an in-place update: out of service."""
        if request.verb == "delete":
            return True
        pod = self.lab.world.get(ObjectKey("", "Pod", request.namespace, request.name))
        made = after(request, pod) if pod is not None else None
        return made is not None and gate_closed(made)

    def check(self, request: ApiRequest, now: datetime) -> None:
        owner, pods = self.owner, self.active()
        amounts = resolve_amounts(owner)
        if request.verb == "create":
            if len(pods) + 1 > amounts.replicas + amounts.surge:
                self.broken.append(f"surge: {len(pods) + 1} pods")
            return
        if request.verb == "get":
            return
        if not guarded(request):
            self.broken.append(f"{request.verb} of {request.name} without preconditions")
        if not self.disruptive(request):
            return
        self.disruptions += 1
        available = {p.name for p in pods if p.available(now, min_ready_s=owner.min_ready_s)}
        if request.name in available:
            left = len(available) - 1
            if left < amounts.replicas - amounts.unavailable:
                self.broken.append(f"budget: {left} available after {request.verb}")


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    surge = draw(st.integers(0, 2))
    down = draw(st.integers(0 if surge else 1, 3))
    policy = draw(st.sampled_from(["ReCreate", "InPlaceIfPossible"]))
    return {"podUpdatePolicy": policy, "maxUnavailable": down, "maxSurge": surge}


faults = st.lists(st.sampled_from([NO_FAULT, NO_FAULT, CONFLICT, LOST, DOWN]), max_size=25)


def image(name: str, **spec: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "app", "image": name}]}}, **spec}


SURGED: Final = {"podUpdatePolicy": "InPlaceIfPossible", "maxUnavailable": 1, "maxSurge": 2}


@settings(max_examples=one_in(2))
@example(5, SURGED, 2, [1, 2, 0, 0, 3, 0], 0)
@given(st.integers(1, 6), strategies(), st.integers(0, 6), faults, st.sampled_from([-1, 0, 2]))
def test_rollout_keeps_its_budgets_and_converges(
    replicas: int, strategy: dict[str, Any], partition: int, failing: list[int], grow: int
) -> None:
    lab, web = Lab(), cloneset(replicas=replicas, **strategy, partition=partition)
    lab.apply(web)
    assert lab.run(3600).quiet
    judge = Judge(lab, list(failing))
    lab.simulation.send = judge
    wanted = max(replicas + grow, 1)
    lab.patch(web, {"spec": image("app:v2", replicas=wanted)})
    assert lab.run(36_000).quiet
    assert judge.broken == []

    pods, amounts = judge.active(), resolve_amounts(judge.owner)
    update = judge.owner.status["updateRevision"]
    assert len(pods) == wanted
    assert all(p.available(lab.now) for p in pods)
    old = [p for p in pods if not p.on_revision(update)]
    assert len(old) <= amounts.partition  # new pods may fill the partition's share
    assert judge.owner.status["observedGeneration"] == judge.owner.generation


@settings(max_examples=one_in(5))
@given(st.integers(1, 5), strategies(), faults)
def test_an_unchanged_template_disturbs_no_pod(
    replicas: int, strategy: dict[str, Any], failing: list[int]
) -> None:
    lab, web = Lab(), cloneset(replicas=replicas, **strategy)
    lab.apply(web)
    lab.run(3600)
    uids = {p.uid: p.restarts for p in Judge(lab).active()}
    judge = Judge(lab, list(failing))
    lab.simulation.send = judge
    lab.patch(web, {"metadata": {"annotations": {"note": "x"}}, "spec": {"minReadySeconds": 1}})
    assert lab.run(3600).quiet
    assert judge.disruptions == 0
    assert {p.uid: p.restarts for p in judge.active()} == uids


@settings(max_examples=one_in(5))
@given(st.integers(1, 5), strategies(), st.integers(1, 40))
def test_the_same_snapshot_gives_the_same_plan(
    replicas: int, strategy: dict[str, Any], seconds: int
) -> None:
    lab, web = Lab(), cloneset(replicas=replicas, **strategy)
    lab.apply(web)
    lab.run(3600)
    lab.patch(web, {"spec": image("app:v2", replicas=replicas + 1)})
    lab.run(seconds / 10)
    snapshot = observe_cloneset(lab.world, WEB, lab.now)
    again = observe_cloneset(lab.world.fork(), WEB, lab.now)
    assert snapshot is not None
    assert again is not None
    assert plan_cloneset(snapshot, Gates()) == plan_cloneset(again, Gates())


def test_the_judge_notices() -> None:
    """A law that cannot fail proves nothing."""
    lab, web = Lab(), cloneset(replicas=2, maxUnavailable=1)
    lab.apply(web)
    lab.run(600)
    judge = Judge(lab)
    names = [p.name for p in judge.active()]
    request = ApiRequest(
        verb="delete",
        resource=ResourceRef("", "v1", "pods"),
        namespace=SPACE,
        name=names[0],
        body={"preconditions": {"uid": "u", "resourceVersion": "1"}},
    )
    lab.patch(web, {"spec": {"replicas": 3}})
    with contextlib.suppress(ApiError):
        judge(request, lab.now)
    assert any(word.startswith("budget") for word in judge.broken)
