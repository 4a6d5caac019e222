"""Containers with an order of launch wait at a barrier: BARRIER-1 and BARRIER-2."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from gitkruise.admission.chain import admit
from gitkruise.errors import InvalidObject
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.launch_priority import barrier_key, priority_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import drop
from tests.admission.writes import admitted, fields, refusal, write

PRIORITY, BARRIER = "KRUISE_CONTAINER_PRIORITY", "KRUISE_CONTAINER_BARRIER"
ORDERED = {"apps.kruise.io/container-launch-priority": "Ordered"}


def pod(*priorities: str | None, notes: Obj | None = None, **spec: Any) -> dict[str, Any]:
    """Pod `fake` with containers a, b, c…; each with the priority it requests."""
    containers = [
        {"name": name, "image": f"{name}:1"}
        | ({} if priority is None else {"env": [{"name": PRIORITY, "value": priority}]})
        for name, priority in zip("abcdefgh", priorities, strict=False)
    ]
    meta = {"name": "fake", **({"annotations": notes} if notes else {})}
    spec = {"containers": containers, **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}


def barriers(stored: Obj) -> list[str | None]:
    """The key each container waits for; its barrier must be its last variable."""
    found: list[str | None] = []
    for container in stored["spec"]["containers"]:
        at = [i for i, e in enumerate(container.get("env") or ()) if e["name"] == BARRIER]
        if not at:
            found.append(None)
            continue
        assert at == [len(container["env"]) - 1]
        ref = container["env"][-1]["valueFrom"]["configMapKeyRef"]
        assert ref == {"name": "fake-barrier", "key": ref["key"]}
        found.append(ref["key"])
    return found


ROWS: dict[str, tuple[dict[str, Any], list[str | None]]] = {
    "BARRIER-2 nothing asked": (pod(None, None), [None, None]),
    "BARRIER-2 ordered": (pod(None, None, None, notes=ORDERED), ["p_0", "p_-1", "p_-2"]),
    "ordered beats numbers": (pod("5", "7", notes=ORDERED), ["p_0", "p_-1"]),
    "other words mean nothing": (pod(None, None, notes={next(iter(ORDERED)): "yes"}), [None, None]),
    "one container": (pod("5", notes=ORDERED), [None]),
    "BARRIER-1 numbers": (
        pod("5", "-3", None, "2147483647", "-2147483647", "+7"),
        ["p_5", "p_-3", "p_0", "p_2147483647", "p_-2147483647", "p_7"],
    ),
    "all the same": (pod("5", "5"), [None, None]),
    "all zero": (pod("0", None), [None, None]),
}


@pytest.mark.parametrize(("obj", "keys"), ROWS.values(), ids=ROWS)
def test_barriers(obj: Obj, keys: list[str | None]) -> None:
    assert barriers(admitted(obj)) == keys


@pytest.mark.parametrize(
    ("number", "key"),
    [(5, "p_5"), (-3, "p_-3"), (0, "p_0"), (2147483647, "p_2147483647"),
     (-2147483647, "p_-2147483647")],
)  # fmt: skip
def test_barrier_1_keys_and_back(number: int, key: str) -> None:
    assert barrier_key(number) == key
    assert priority_of(key) == number


@pytest.mark.parametrize(
    ("key", "number"),
    [("p_abc", 0), ("x_5", 5), ("p_", 0), ("p", 0), ("", 0), ("p_٣", 0), ("p_9" + "9" * 30, 0)],
)
def test_barrier_1_keys_nobody_would_write(key: str, number: int) -> None:
    assert priority_of(key) == number


def test_the_last_of_several_priorities_counts() -> None:
    obj = pod("1", None)
    obj["spec"]["containers"][0]["env"].append({"name": PRIORITY, "value": "9"})
    assert barriers(admitted(obj)) == ["p_9", "p_0"]


@pytest.mark.parametrize("value", ["high", "1.5", "", "0x10", " 1", "1_000", "９", "9" * 40])
def test_a_priority_that_is_no_number_is_refused_with_its_place(value: str) -> None:
    error = refusal(pod(None, value))
    assert isinstance(error, InvalidObject)
    assert fields(error) == {"spec.containers[1].env[0].value"}
    assert PRIORITY in error.message


def test_every_bad_priority_is_named() -> None:
    assert fields(refusal(pod("x", "1", "y"))) == {
        "spec.containers[0].env[0].value",
        "spec.containers[2].env[0].value",
    }


def test_a_priority_by_reference_is_refused() -> None:
    obj = pod(None, None)
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    obj["spec"]["containers"][1]["env"] = [{"name": PRIORITY, "valueFrom": source}]
    assert fields(refusal(obj)) == {"spec.containers[1].env[0].value"}


def test_init_containers_take_no_part() -> None:
    native = {"name": "i", "image": "i:1", "restartPolicy": "Always",
              "env": [{"name": PRIORITY, "value": "9"}]}  # fmt: skip
    stored = admitted(pod("1", None, initContainers=[native]))
    assert [e["name"] for e in stored["spec"]["initContainers"][0]["env"]] == [PRIORITY]
    assert barriers(stored) == ["p_1", "p_0"]


def test_quirk_a_barrier_copied_from_another_pod_is_replaced() -> None:
    """OpenKruise appends a second one; its controller reads the first, of a pod long gone."""
    obj = pod("1", None)
    old = {"name": BARRIER, "valueFrom": {"configMapKeyRef": {"name": "x-barrier", "key": "p_8"}}}
    obj["spec"]["containers"][0]["env"].insert(0, old)
    assert barriers(admitted(obj)) == ["p_1", "p_0"]


def test_a_name_to_be_generated_is_made_at_once_and_the_same_for_the_same_review() -> None:
    obj = drop(pod("1", None), ("metadata", "name"))
    obj = {**obj, "metadata": {"generateName": "a" * 70 + "-"}}
    request = replace(write(obj), uid="review-1")
    first = admit(request, Gates())
    assert first is not None
    name = first["metadata"]["name"]
    assert (len(name), name[:58]) == (63, "a" * 58)
    ref = first["spec"]["containers"][0]["env"][-1]["valueFrom"]["configMapKeyRef"]
    assert ref["name"] == f"{name}-barrier"
    assert admit(request, Gates()) == first
    other = admit(replace(request, uid="review-2"), Gates())
    assert other is not None
    assert other["metadata"]["name"] != name


def test_only_new_pods_and_only_with_the_pod_webhook() -> None:
    old = admitted(pod("1", None), gates=Gates(pod_webhook=False))
    assert barriers(old) == [None, None]
    assert barriers(admitted(old, old)) == [None, None]
