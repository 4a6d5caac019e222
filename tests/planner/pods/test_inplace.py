"""May a pod be updated in place: one row a change of the template."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.workloads.cloneset import Policy
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.pods.inplace import Impossible, UpdateSpec, in_place_spec
from gitkruise.planner.pods.json_diff import json_diff
from gitkruise.wire.primitives.names import Obj
from tests.planner.cloneset.build import revision

VERTICAL: Final = Gates(in_place_workload_vertical_scaling=True)
CLAIMS: Final = Gates(recreate_pod_when_change_vct_in_clone_set_gate=True)
REF: Final = [
    {
        "name": "K",
        "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels['k']"}},
    }
]


def box(image: str = "foo1", name: str = "c1", **more: Any) -> dict[str, Any]:
    return {"name": name, "image": image, "resources": {}, **more}


def sized(requests: dict[str, str], limits: dict[str, str] | None = None) -> dict[str, Any]:
    return {"requests": requests, **({"limits": limits} if limits else {})}


def made(*containers: Obj, labels: Any = None, **metadata: Any) -> dict[str, Any]:
    meta = {"labels": labels or {"app": "web"}, **metadata}
    return {"metadata": meta, "spec": {"containers": list(containers)}}


ONE: Final = {"app": "web", "k1": "v1"}
# before, after, gates, what changes (None: a new pod is needed)
ROWS: Final[dict[str, tuple[Obj, Obj, Gates, dict[str, Any] | None]]] = {
    "SPEC-2 image": (made(box()), made(box("foo2")), Gates(), {"images": {"c1": "foo2"}}),
    "SPEC-3 image and label": (
        made(box()),
        made(box("foo2"), labels=ONE),
        Gates(),
        {"images": {"c1": "foo2"}, "metadata_patch": {"metadata": {"labels": {"k1": "v1"}}}},
    ),
    "SPEC-4 label read as environment": (
        made(box(env=REF), labels={"app": "web", "k": "v"}),
        made(box("foo2", env=REF), labels={**ONE, "k": "v2"}),
        Gates(),
        {
            "images": {"c1": "foo2"},
            "ref_metadata": {"c1": {"labels": {"k": "v2"}}},
            "metadata_patch": {"metadata": {"labels": {"k1": "v1"}}},
            "env_from_metadata": True,
        },
    ),
    "SPEC-5 labels and finalizers": (
        made(box(), labels={"app": "web", "k2": "v2"}, finalizers=["fz1", "fz2"]),
        made(box("foo2"), labels=ONE, finalizers=["fz2"]),
        Gates(),
        {
            "images": {"c1": "foo2"},
            "metadata_patch": {
                "metadata": {
                    "$deleteFromPrimitiveList/finalizers": ["fz1"],
                    "$setElementOrder/finalizers": ["fz2"],
                    "labels": {"k1": "v1", "k2": None},
                }
            },
        },
    ),
    "SPEC-6 environment": (
        made(box()),
        made(box(env=[{"name": "A", "value": "1"}])),
        Gates(),
        None,
    ),
    "SPEC-7 cpu": (
        made(box(resources=sized({"cpu": "1"}))),
        made(box(resources=sized({"cpu": "2"}))),
        VERTICAL,
        {"resources": {"c1": {"requests": {"cpu": "2"}}}},
    ),
    "SPEC-7 without its gate": (
        made(box(resources=sized({"cpu": "1"}))),
        made(box(resources=sized({"cpu": "2"}))),
        Gates(),
        None,
    ),
    "SPEC-8 image and cpu": (
        made(box(resources=sized({"cpu": "1"}))),
        made(box("foo2", resources=sized({"cpu": "2"}))),
        VERTICAL,
        {"images": {"c1": "foo2"}, "resources": {"c1": {"requests": {"cpu": "2"}}}},
    ),
    "SPEC-9 cpu and pull policy": (
        made(box(resources=sized({"cpu": "1"}), imagePullPolicy="Always")),
        made(box(resources=sized({"cpu": "2"}), imagePullPolicy="Never")),
        VERTICAL,
        None,
    ),
    "SPEC-10 burstable to guaranteed": (
        made(
            box(resources=sized({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"})),
            box(
                name="c2",
                resources=sized({"cpu": "1", "memory": "1Gi"}, {"cpu": "2", "memory": "2Gi"}),
            ),
        ),
        made(
            box(resources=sized({"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"})),
            box(
                name="c2",
                resources=sized({"cpu": "2", "memory": "2Gi"}, {"cpu": "2", "memory": "2Gi"}),
            ),
        ),
        VERTICAL,
        None,
    ),
    "SPEC-11 one container to its limits": (
        made(
            box(resources=sized({"cpu": "1"}, {"cpu": "2"})),
            box(name="c2", resources=sized({"cpu": "1"}, {"cpu": "2"})),
        ),
        made(
            box(resources=sized({"cpu": "2"}, {"cpu": "2"})),
            box(name="c2", resources=sized({"cpu": "1"}, {"cpu": "2"})),
        ),
        VERTICAL,
        {"resources": {"c1": {"requests": {"cpu": "2"}}}},
    ),
    "SPEC-13 amount added": (
        made(box(resources=sized({"cpu": "1"}))),
        made(box(resources=sized({"cpu": "1", "memory": "1Gi"}))),
        VERTICAL,
        None,
    ),
    "SPEC-13 other resource": (
        made(box(resources=sized({"cpu": "1", "gpu": "1"}))),
        made(box(resources=sized({"cpu": "1", "gpu": "2"}))),
        VERTICAL,
        None,
    ),
    "container renamed": (made(box()), made(box(name="c2")), Gates(), None),
    "container added": (made(box()), made(box(), box(name="c2")), Gates(), None),
    "init container": (
        {"metadata": {}, "spec": {"initContainers": [box("i1", "i")], "containers": [box()]}},
        {"metadata": {}, "spec": {"initContainers": [box("i2", "i")], "containers": [box()]}},
        Gates(),
        None,
    ),
    "label only": (
        made(box()),
        made(box(), labels=ONE),
        Gates(),
        {"metadata_patch": {"metadata": {"labels": {"k1": "v1"}}}},
    ),
}


def spec_of(before: Obj, after: Obj, gates: Gates) -> UpdateSpec | Impossible:
    return in_place_spec(
        revision(before, 1), revision(after, 2), policy=Policy.IN_PLACE_IF_POSSIBLE, gates=gates
    )


@pytest.mark.parametrize("row", ROWS.values(), ids=ROWS)
def test_in_place(row: tuple[Obj, Obj, Gates, dict[str, Any] | None]) -> None:
    before, after, gates, wanted = row
    spec = spec_of(before, after, gates)
    if wanted is None:
        assert isinstance(spec, Impossible)
        assert spec.why
    else:
        assert spec == UpdateSpec(revision=revision(after, 2).name, **wanted)


def test_spec_1_forgotten_revision_needs_a_new_pod() -> None:
    new = revision(made(box()), 2)
    spec = in_place_spec(None, new, policy=Policy.IN_PLACE_ONLY, gates=Gates())
    assert isinstance(spec, Impossible)


@pytest.mark.parametrize(
    ("old", "new", "policy", "gates", "possible"),
    [
        ("", "x", Policy.IN_PLACE_IF_POSSIBLE, CLAIMS, False),
        ("", "x", Policy.IN_PLACE_ONLY, CLAIMS, True),
        ("", "x", Policy.IN_PLACE_IF_POSSIBLE, Gates(), True),
        (None, "x", Policy.IN_PLACE_IF_POSSIBLE, CLAIMS, True),
        ("", "", Policy.IN_PLACE_IF_POSSIBLE, CLAIMS, True),
    ],
)
def test_spec_12_claim_templates(
    old: str | None, new: str, policy: Policy, gates: Gates, possible: bool
) -> None:
    before = revision(made(box()), 1, claims_hash=old)
    after = revision(made(box("foo2")), 2, claims_hash=new)
    spec = in_place_spec(before, after, policy=policy, gates=gates)
    assert isinstance(spec, UpdateSpec) is possible


def test_garbage_in_a_revision_needs_a_new_pod_and_says_so() -> None:
    broken = revision(made(box()), 1, data=b'{"spec":')
    spec = in_place_spec(broken, revision(made(box()), 2), policy=Policy.RECREATE, gates=Gates())
    assert isinstance(spec, Impossible)
    assert "revision data" in spec.why


values = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.text("ab", max_size=2),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text("ab/~", max_size=2), inner),
    max_leaves=8,
)


@given(values)
def test_no_difference_no_operation(value: Any) -> None:
    assert json_diff(value, value) == []


@given(values, values)
def test_every_difference_is_an_operation(old: Any, new: Any) -> None:
    if old != new:
        assert json_diff(old, new)
