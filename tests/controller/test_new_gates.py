"""Gates of a new pod open whatever others write first, and over no value of another writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

import pytest

from gitkruise.errors import ApplyConflict
from gitkruise.model.planning.plan import Applied, Patch, PatchStep, Plan, Stale
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.builtin.deployment import DEPLOYMENT
from gitkruise.wire.primitives.names import Obj, ObjectKey, key_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH, ApiReply, ApiRequest
from gitkruise.world.simulation.executor import execute
from tests.worlds import SPACE, Lab, deployment, pod

WEB: Final = ObjectKey("apps", "Deployment", SPACE, "web")
TIME: Final = "2026-11-21T10:00:00Z"
GATES: Final = ("InPlaceUpdateReady", "KruisePodReady")
KEYS: Final = '[{"userAgent":"other","key":"draining"}]'
ActionRequest = Callable[[Lab], Any]


def condition(type_: str, status: str = "True", **more: str) -> dict[str, str]:
    return {"type": type_, "status": status, "lastTransitionTime": TIME, **more}


OPEN: Final = [condition(gate) for gate in GATES]


def reports(*conditions: Mapping[str, str]) -> ActionRequest:
    """Merge conditions by type in front of those there are."""

    def act(lab: Lab) -> Obj:
        types = {c["type"] for c in conditions}
        there = get(lab.get(pod("a")), "status", "conditions", default=())
        kept = [c for c in there if c["type"] not in types]
        body = {"status": {"conditions": [*conditions, *kept]}}
        return lab.patch(pod("a"), body, subresource="status")

    return act


def writes(**metadata: Any) -> ActionRequest:
    return lambda lab: lab.patch(pod("a"), {"metadata": metadata})


def nothing(_: Lab) -> None:
    """No other writer."""


def another_pod(lab: Lab) -> None:
    lab.delete(pod("a"), gracePeriodSeconds=0)
    lab.apply(pod("a"))


def opening(raw: Obj, conditions: Sequence[Mapping[str, Any]] = OPEN) -> Patch:
    body = {"status": {"conditions": conditions}}
    step = PatchStep(body=body, content_type=STRATEGIC_PATCH, subresource="status")
    facts = pod_facts(raw)
    return Patch(
        key=key_of(raw),
        version="v1",
        uid=facts.uid,
        resource_version=facts.resource_version,
        steps=(step,),
        seen=facts,
    )


class Scene:
    """A new pod `a`, and what happens right before the first write on it takes effect."""

    def __init__(self, lab: Lab | None = None) -> None:
        self.lab = lab or Lab(parts=())
        if lab is None:
            self.lab.apply(deployment())
            self.lab.apply(pod("a"))
        self.new = self.lab.get(pod("a"))
        self.patches: list[ApiRequest] = []

    def run(self, patch: Patch, first: ActionRequest) -> Any:
        def send(request: ApiRequest, now: datetime) -> ApiReply:
            if request.verb == "patch":
                if not self.patches:
                    first(self.lab)
                self.patches.append(request)
            return self.lab.world.handle(request, now)

        plan = Plan(actions=(patch,))
        (outcome,) = execute(plan, self.lab.world, DEPLOYMENT, WEB, self.lab.now, send=send)
        return outcome

    def conditions(self) -> dict[str, tuple[str, str]]:
        listed = get(self.lab.get(pod("a")), "status", "conditions", default=())
        return {c["type"]: (c["status"], c.get("message", "")) for c in listed}


KUBELET: Final = ("PodReadyToStartContainers", "Initialized", "Ready", "ContainersReady")
HARMLESS: Final[Mapping[str, ActionRequest]] = {
    "nothing": nothing,
    "the scheduler": reports(condition("PodScheduled")),
    "the node agent": reports(*(condition(type_, "False") for type_ in KUBELET)),
    "a network": writes(annotations={"cni.example.com/address": "10.0.0.1"}),
    "a label": writes(labels={"app": "other"}),
    "an orphan": writes(ownerReferences=None),
    "a finalizer": writes(finalizers=["example.com/wait"]),
    "the same": reports(*OPEN),
}
HELD: Final[Mapping[str, tuple[ActionRequest, str, tuple[str, str]]]] = {
    "a key": (
        reports(condition("KruisePodReady", "False", message=KEYS)),
        "KruisePodReady",
        ("False", KEYS),
    ),
    "keys that went again": (
        reports(condition("KruisePodReady", message="[]")),
        "KruisePodReady",
        ("True", "[]"),
    ),
    "an update": (
        reports(condition("InPlaceUpdateReady", "False", reason="StartInPlaceUpdate")),
        "InPlaceUpdateReady",
        ("False", ""),
    ),
}


@pytest.mark.parametrize("first", HARMLESS.values(), ids=HARMLESS)
def test_what_others_write_on_a_new_pod_delays_no_gate(first: ActionRequest) -> None:
    scene = Scene()
    assert isinstance(scene.run(opening(scene.new), first), Applied)
    assert len(scene.patches) == 1
    conditions = scene.conditions()
    assert {conditions[gate] for gate in GATES} == {("True", "")}


def test_conditions_of_others_survive() -> None:
    scene = Scene()
    scene.run(opening(scene.new), HARMLESS["the node agent"])
    assert {type_: scene.conditions()[type_][0] for type_ in KUBELET} == dict.fromkeys(
        KUBELET, "False"
    )


@pytest.mark.parametrize(("first", "gate", "theirs"), HELD.values(), ids=HELD)
def test_a_gate_that_another_writer_set_first_is_left_alone(
    first: ActionRequest, gate: str, theirs: tuple[str, str]
) -> None:
    scene = Scene()
    outcome = scene.run(opening(scene.new), first)
    if theirs[0] == "True":  # ours adds no message, so theirs is none the poorer
        assert isinstance(outcome, Applied)
    else:
        assert isinstance(outcome, Stale)
    assert scene.conditions()[gate] == theirs


def test_another_pod_of_the_name_gets_no_gate() -> None:
    scene = Scene()
    assert isinstance(scene.run(opening(scene.new), another_pod), Stale)
    assert scene.conditions() == {}


def test_of_two_writers_of_one_new_condition_the_first_wins() -> None:
    """Each puts its entry into the message, which the other one has to read first."""
    scene = Scene()
    mine, theirs = ([condition("Shared", message=text)] for text in ("mine", "theirs"))
    second = scene.run(
        opening(scene.new, mine),
        lambda lab: Scene(lab).run(opening(scene.new, theirs), nothing),
    )
    assert isinstance(second, Stale)
    assert scene.conditions() == {"Shared": ("True", "theirs")}


def test_conditions_created_one_after_the_other_stay() -> None:
    scene = Scene()
    for gate in GATES:
        Scene(scene.lab).run(opening(scene.lab.get(pod("a")), [condition(gate)]), nothing)
    assert set(scene.conditions()) == set(GATES)


def test_an_apply_that_arrives_twice_opens_no_gate_that_was_closed_in_between() -> None:
    """A transport whose connection breaks sends an apply again."""
    scene = Scene()
    scene.run(opening(scene.new), nothing)
    (apply,) = scene.patches
    reports(condition("InPlaceUpdateReady", "False"))(scene.lab)
    with pytest.raises(ApplyConflict):
        scene.lab.world.handle(apply, scene.lab.now)
    assert scene.conditions()["InPlaceUpdateReady"] == ("False", "")


def test_a_gate_that_closes_says_what_it_rests_on() -> None:
    """Only an open gate rests on nothing: one that closes takes a pod out of service."""
    scene = Scene()
    closing = opening(scene.new, [condition("InPlaceUpdateReady", "False")])
    assert isinstance(scene.run(closing, HARMLESS["a label"]), Stale)
    assert scene.conditions() == {}
