"""Containers are released one priority after the other: BARRIER-3 to BARRIER-9."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from gitkruise.model.planning.plan import Action, Create, Delete, Patch
from gitkruise.model.workloads.launch_priority import launch_priority
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.planner.pods.launch_priority import Launch, pending, plan_launch
from gitkruise.wire.primitives.names import Obj

BARRIER = "KRUISE_CONTAINER_BARRIER"
COMPLETED = "apps.kruise.io/container-launch-priority-completed"
SIX: dict[str, int | None] = {"a": 3, "b": 5, "c": 0, "d": None, "e": -1, "f": 3}


def container(name: str, priority: int | None) -> dict[str, Any]:
    if priority is None:
        return {"name": name, "image": "i"}
    ref = {"name": "p-barrier", "key": f"p_{priority}"}
    return {"name": name, "image": "i", "env": [{"name": BARRIER, "valueFrom": {"configMapKeyRef": ref}}]}  # fmt: skip  # noqa: E501


def pod(
    priorities: dict[str, int | None], ready: str = "", *, completed: bool = False, **status: Any
) -> PodFacts:
    """Pod `p`; `ready` are the letters of its ready containers."""
    statuses = [{"name": name, "ready": name in ready} for name in priorities]
    meta: dict[str, Any] = {"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7"}
    if completed:
        meta["annotations"] = {COMPLETED: "true"}
    return pod_facts(
        {
            "metadata": meta,
            "spec": {"containers": [container(n, p) for n, p in priorities.items()]},
            "status": {"phase": "Pending", "containerStatuses": statuses, **status},
        }
    )


def barrier(*keys: int, owner: str = "u") -> Obj:
    meta = {
        "name": "p-barrier",
        "namespace": "shop",
        "uid": "cm",
        "resourceVersion": "3",
        "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": owner}],
    }
    data = {f"p_{key}": "true" for key in keys}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta, "data": data}


def described(actions: Sequence[Action]) -> list[str]:
    """`+5` a key added, `done` the order complete, `make` or `drop` the barrier."""
    words = []
    for action in actions:
        match action:
            case Create():
                words.append("make" + "".join(f"+{k[2:]}" for k in action.obj.get("data") or ()))
            case Delete():
                words.append("drop")
            case Patch(key=key) if key.kind == "ConfigMap":
                words += [f"+{name[2:]}" for name in action.steps[0].body["data"]]
            case Patch():
                (step,) = action.steps
                assert step.body == {"metadata": {"annotations": {COMPLETED: "true"}}}
                words.append("done")
    return words


@pytest.mark.parametrize(
    ("f", "ready", "left"), [(4, "b", [-1, 0, 3, 4]), (3, "bf", [-1, 0, 3])]
)  # fmt: skip
def test_barrier_3_who_is_pending(f: int, ready: str, left: list[int]) -> None:
    assert pending(pod({**SIX, "f": f}, ready)) == left


ROUNDS: dict[str, tuple[PodFacts, Obj | None, list[str]]] = {
    "no barrier yet": (pod(SIX), None, ["make"]),
    "BARRIER-4 nothing ready": (pod(SIX), barrier(), ["+5"]),
    "BARRIER-4 and again": (pod(SIX), barrier(5), []),
    "BARRIER-5 one of two is pending": (pod(SIX, "bf"), barrier(5, 3), []),
    "BARRIER-6 the next priority": (pod(SIX, "abf"), barrier(5, 3), ["+0"]),
    "BARRIER-7 the last one": (pod(SIX, "abcf"), barrier(5, 3, 0), ["+-1", "done"]),
    "BARRIER-8 empty barrier": (pod(SIX), barrier(), ["+5"]),
    "BARRIER-8 nothing ready": (pod(SIX), barrier(5), []),
    "BARRIER-8 b and f ready": (pod(SIX, "bf"), barrier(5, 3), []),
    "BARRIER-8 a, b and f ready": (pod(SIX, "abf"), barrier(5, 3), ["+0"]),
    "BARRIER-8 a, b and f ready again": (pod(SIX, "abf"), barrier(5, 3, 0), []),
    "BARRIER-8 c ready too": (pod(SIX, "abcf"), barrier(5, 3, 0), ["+-1", "done"]),
    "BARRIER-8 completed": (pod(SIX, "abcf", completed=True), barrier(5, 3, 0, -1), []),
    "BARRIER-9 numbers, not texts": (pod({"x": 100, "y": 1000}), barrier(), ["+1000"]),
    "one priority for all": (pod({"x": 7, "y": 7}), barrier(), ["+7", "done"]),
    "the note was lost": (pod(SIX, "abcf"), barrier(5, 3, 0, -1), ["done"]),
    "all ready": (
        pod(SIX, "abcdef", conditions=[{"type": "ContainersReady", "status": "True"}]),
        barrier(5, 3),
        [],
    ),
    "no container waits": (pod({"x": None, "y": None}), None, []),
    "the pod is over": (pod(SIX, phase="Failed"), None, []),
}


@pytest.mark.parametrize(("facts", "config", "words"), ROUNDS.values(), ids=ROUNDS)
def test_rounds(facts: PodFacts, config: Obj | None, words: list[str]) -> None:
    assert described(plan_launch(Launch(facts, config))) == words


def test_the_barrier_belongs_to_the_pod_and_has_no_flags() -> None:
    (create,) = plan_launch(Launch(pod(SIX), None))
    assert isinstance(create, Create)
    owner = {"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}
    assert create.obj == {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"namespace": "shop", "name": "p-barrier", "ownerReferences": [owner]},
    }


def test_quirk_a_deleted_barrier_comes_back_with_all_keys() -> None:
    """OpenKruise leaves it deleted once the order is complete: no container could start again."""
    facts = pod(SIX, "abcdef", completed=True)
    assert described(plan_launch(Launch(facts, None))) == ["make+3+5+0+-1"]


def test_quirk_the_barrier_of_a_former_pod_of_that_name_is_not_used() -> None:
    """OpenKruise takes it: all keys are in, nothing is ordered, and then it is collected."""
    (drop,) = plan_launch(Launch(pod(SIX), barrier(5, 3, 0, -1, owner="someone else")))
    assert isinstance(drop, Delete)
    assert (drop.key.name, drop.uid) == ("p-barrier", "cm")


def test_quirk_a_barrier_without_a_key_is_none() -> None:
    """OpenKruise's controller crashes on it."""
    odd = {"name": "x", "env": [{"name": BARRIER, "value": "p_5"}]}
    facts = pod_facts({"metadata": {"name": "p"}, "spec": {"containers": [odd]}})
    assert launch_priority(facts.containers[0]) is None
    assert plan_launch(Launch(facts, None)) == []
