"""Writes on pods hold for what was decided upon, whatever node agents report meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pytest

from gitkruise.errors import InvalidObject
from gitkruise.model.planning.plan import Patch, PatchStep
from gitkruise.model.planning.preconditions import TRIES
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.wire.primitives.names import Obj, key_of
from gitkruise.wire.primitives.requests import STRATEGIC_PATCH, ApiRequest
from tests.controller.test_executor import Bench, kinds
from tests.kube.toy import PODS, Fault, Toy

GATE: Final = PatchStep(
    body={"status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "False"}]}},
    content_type=STRATEGIC_PATCH,
    subresource="status",
)
SHARED: Final = PatchStep(
    body={"status": {"conditions": [{"type": "KruisePodReady", "status": "False"}]}},
    content_type=STRATEGIC_PATCH,
    subresource="status",
)
IMAGE: Final = PatchStep(
    body={
        "metadata": {"labels": {"hash": "2"}},
        "spec": {"containers": [{"name": "app", "image": "app:v2"}]},
    },
    content_type=STRATEGIC_PATCH,
)
BACK: Final = PatchStep(
    body={
        "metadata": {"labels": {"state": "Normal"}, "annotations": {"since": "now"}},
        "status": {"conditions": [{"type": "InPlaceUpdateReady", "status": "True"}]},
    },
    content_type=STRATEGIC_PATCH,
    subresource="status",
)


def conditions(**status: str) -> list[dict[str, str]]:
    return [{"type": type_, "status": value} for type_, value in status.items()]


class Scene(Bench):
    """A pod `p` that is ready, and a patch of it in two steps."""

    def __init__(self, ready: str = "True", **more: str) -> None:
        super().__init__()
        self.pod = self.toy.make(
            PODS,
            "p",
            metadata={"labels": {"hash": "1"}, "annotations": {"apps.kruise.io/x": "1"}},
            spec={"containers": [{"name": "app", "image": "app:v1"}]},
            status={
                "conditions": conditions(Ready=ready, KruisePodReady="True", **more),
            },
        )
        self.objects["p"] = self.pod
        self.store.note_write(self.pod)

    def change(self, *steps: PatchStep, spends: bool = False) -> Patch:
        seen = pod_facts(self.pod)
        return Patch(
            key=key_of(self.pod),
            version="v1",
            uid=seen.uid,
            resource_version=seen.resource_version,
            steps=steps,
            seen=seen,
            spends=spends,
        )

    def stored(self) -> Obj:
        return self.toy.objects[PODS, "default", "p"]

    def image(self) -> Any:
        return self.stored()["spec"]["containers"][0]["image"]

    def between(self, act: Callable[[Toy], Any], *, after: str = "status") -> None:
        """Let `act` happen right after our write on the subresource `after`."""
        do = self.toy.do

        def done(request: Any) -> Obj:
            reply = do(request)
            if request.verb == "patch" and request.subresource == after:
                self.toy.do = do  # type: ignore[method-assign]
                act(self.toy)
            return reply

        self.toy.do = done  # type: ignore[method-assign]

    def before(self, acts: Sequence[Callable[[Toy], Any]]) -> None:
        """Let one of `acts` happen right before each of our patches."""
        do, left = self.toy.do, list(acts)

        def done(request: ApiRequest) -> Obj:
            if request.verb == "patch" and left:
                act = left.pop(0)
                self.toy.do = do  # type: ignore[method-assign]
                act(self.toy)
                self.toy.do = done  # type: ignore[method-assign]
            return do(request)

        self.toy.do = done  # type: ignore[method-assign]


def changed(**patch: Any) -> Callable[[Toy], Any]:
    return lambda toy: toy.change(PODS, "p", patch)


REPORTS: Final[Mapping[str, Callable[[Toy], Any]]] = {
    "status": changed(status={"phase": "Running"}),
    "order": changed(
        status={
            "conditions": conditions(
                InPlaceUpdateReady="False", KruisePodReady="True", Ready="True"
            )
        }
    ),
    "containers": changed(status={"containerStatuses": [{"name": "app", "ready": False}]}),
    "agent": changed(metadata={"annotations": {"cni.example.com/ip": "10.0.0.1"}}),
    "containers' hashes": changed(
        metadata={"annotations": {"apps.kruise.io/runtime-containers-meta": "{}"}}
    ),
}
MOVES: Final[Mapping[str, Callable[[Toy], Any]]] = {
    "label": changed(metadata={"labels": {"lifecycle.apps.kruise.io/state": "PreparingDelete"}}),
    "revision": changed(metadata={"labels": {"hash": "3"}}),
    "annotation": changed(metadata={"annotations": {"apps.kruise.io/x": "2"}}),
    "update begun": changed(metadata={"annotations": {"inplace-update-state": "{}"}}),
    "image": changed(spec={"containers": [{"name": "app", "image": "app:v9"}]}),
    "finalizer": changed(metadata={"finalizers": ["example.com/wait"]}),
    "owner": changed(metadata={"ownerReferences": [{"uid": "u", "controller": True}]}),
    "deletion": changed(metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
}


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
@pytest.mark.parametrize("known", [True, False], ids=["seen", "not seen"])
def test_reports_of_a_node_agent_stop_no_step(report: Callable[[Toy], Any], known: bool) -> None:
    scene = Scene()
    pod = report(scene.toy)
    if known:
        scene.store.note_write(pod)
    scene.between(report)
    assert kinds(scene.run(scene.change(GATE, IMAGE))) == ["Applied"]
    assert scene.image() == "app:v2"
    writes = [request for request in scene.toy.requests if request.verb == "patch"]
    assert 1 <= len(writes) <= 2  # a gate that is closed is not closed again


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
@pytest.mark.parametrize("known", [True, False], ids=["seen", "not seen"])
def test_a_pod_that_moved_is_left_alone(move: Callable[[Toy], Any], known: bool) -> None:
    scene = Scene()
    moved = move(scene.toy)
    if known:
        scene.store.note_write(moved)
    assert kinds(scene.run(scene.change(GATE, IMAGE))) == ["Stale"]
    assert scene.stored() == moved


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_pod_that_moves_between_two_steps_goes_no_further(move: Callable[[Toy], Any]) -> None:
    scene = Scene()
    scene.between(move)
    assert kinds(scene.run(scene.change(GATE, IMAGE))) == ["Stale"]
    assert scene.image() != "app:v2"


def is_back(pod: Obj) -> bool:
    """Return whether the pod serves again, labels and condition alike (LC-36)."""
    found = {c["type"]: c["status"] for c in pod["status"]["conditions"]}
    state = pod["metadata"]["labels"].get("state")
    assert (state == "Normal") == (pod["metadata"]["annotations"].get("since") == "now")
    assert (state == "Normal") == (found["InPlaceUpdateReady"] == "True"), "both or none"
    return bool(state == "Normal")


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_labels_and_conditions_are_one_write_whatever_a_node_agent_reports(
    report: Callable[[Toy], Any],
) -> None:
    scene = Scene("False", InPlaceUpdateReady="False")
    scene.before([report])
    assert kinds(scene.run(scene.change(BACK))) == ["Applied"]
    assert is_back(scene.stored())
    writes = [request for request in scene.toy.requests if request.verb == "patch"]
    assert {request.subresource for request in writes} == {"status"}
    assert 1 <= len(writes) <= 2


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_labels_and_conditions_of_a_pod_that_moves_stay_as_they_are(
    move: Callable[[Toy], Any],
) -> None:
    scene = Scene("False", InPlaceUpdateReady="False")
    scene.before([move])
    assert kinds(scene.run(scene.change(BACK))) == ["Stale"]
    assert not is_back(scene.stored())


def test_conditions_go_before_labels_when_a_node_agent_reorders_them_again_and_again() -> None:
    scene = Scene("False", InPlaceUpdateReady="False")
    scene.before([turned] * TRIES)
    assert kinds(scene.run(scene.change(BACK))) == ["Applied"]
    assert is_back(scene.stored())
    writes = [request for request in scene.toy.requests if request.verb == "patch"]
    assert [request.subresource for request in writes] == [*["status"] * (TRIES + 1), ""]


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_labels_that_follow_their_conditions_are_tested_again(move: Callable[[Toy], Any]) -> None:
    scene = Scene("False", InPlaceUpdateReady="False")
    scene.before([*[turned] * TRIES, lambda _: None, move])
    assert kinds(scene.run(scene.change(BACK))) == ["Stale"]
    assert "state" not in scene.stored()["metadata"]["labels"]


def test_another_pod_of_the_name_is_not_the_one() -> None:
    scene = Scene()
    scene.toy.remove(PODS, "p")
    other = scene.toy.make(PODS, "p", spec=scene.pod["spec"], metadata=scene.pod["metadata"])
    assert kinds(scene.run(scene.change(IMAGE))) == ["Stale"]
    assert scene.stored() == other


def test_a_condition_that_others_write_is_rewritten_only_as_it_was_read() -> None:
    scene = Scene()
    theirs = [
        {"type": "Ready", "status": "True"},
        {"type": "KruisePodReady", "status": "False", "message": "[]"},
    ]
    moved = scene.toy.change(PODS, "p", {"status": {"conditions": theirs}})
    assert kinds(scene.run(scene.change(SHARED))) == ["Stale"]
    assert scene.stored() == moved


def turned(toy: Toy) -> None:
    """A node agent writes the conditions in another order."""
    status = toy.objects[PODS, "default", "p"]["status"]
    toy.change(PODS, "p", {"status": {"conditions": status["conditions"][::-1]}})


def test_a_shared_condition_is_never_written_untested() -> None:
    """Another writer's value arrives after all tries, between our read and our write."""
    scene = Scene()
    theirs = [{"type": "KruisePodReady", "status": "False", "message": "theirs"}]
    scene.before([*[turned] * TRIES, changed(status={"conditions": theirs})])
    assert kinds(scene.run(scene.change(SHARED))) == ["Stale"]
    writes = [request for request in scene.toy.requests if request.verb == "patch"]
    assert len(writes) == TRIES
    assert all(isinstance(request.body, list) for request in writes), "each one tests"


@pytest.mark.parametrize(("spends", "outcome"), [(True, "Stale"), (False, "Applied")])
def test_a_pod_that_was_down_costs_nothing_only_while_it_is(spends: bool, outcome: str) -> None:
    scene = Scene(ready="False")
    scene.toy.change(PODS, "p", {"status": {"conditions": conditions(Ready="True")}})
    assert kinds(scene.run(scene.change(GATE, IMAGE, spends=spends))) == [outcome]


def test_what_is_refused_is_read_once_and_refused() -> None:
    scene = Scene()
    scene.toy.faults = [Fault("patch", InvalidObject("spec: Forbidden"))]
    assert kinds(scene.run(scene.change(IMAGE))) == ["Refused"]
    assert [request.verb for request in scene.toy.requests] == ["patch", "get"]


@pytest.mark.parametrize("report", REPORTS.values(), ids=REPORTS)
def test_a_deletion_is_repeated_while_the_decision_holds(report: Callable[[Toy], Any]) -> None:
    scene = Scene()
    report(scene.toy)
    delete = scene.delete("p", seen=pod_facts(scene.pod))
    assert kinds(scene.run(delete)) == ["Applied"]
    assert [request.verb for request in scene.toy.requests] == ["delete", "get", "delete"]


@pytest.mark.parametrize("move", MOVES.values(), ids=MOVES)
def test_a_deletion_of_a_pod_that_moved_is_not(move: Callable[[Toy], Any]) -> None:
    scene = Scene()
    move(scene.toy)
    assert kinds(scene.run(scene.delete("p", seen=pod_facts(scene.pod)))) == ["Stale"]
    assert scene.stored()


def test_a_pod_that_came_up_is_not_deleted_as_one_that_is_down() -> None:
    scene = Scene(ready="False")
    scene.toy.change(PODS, "p", {"status": {"conditions": conditions(Ready="True")}})
    assert kinds(scene.run(scene.delete("p", seen=pod_facts(scene.pod)))) == ["Stale"]
