"""Admission cache: siblings of a pod are copies exactly where admission would not differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import pytest

from gitkruise.model.workloads.sidecarset_annotations import injected_sets, mark_of
from gitkruise.wire.primitives.names import Obj
from gitkruise.world.store.admission_cache import is_reusable
from tests.world.simulation.test_lean import GATES, contents, image, played
from tests.world.write.test_sidecar_injection import sidecarset
from tests.worlds import PODS, SPACE, Lab, cloneset, container, create, pod

HOT: Final = container(
    "mesh", "mesh:1", upgradeStrategy={"upgradeType": "HotUpgrade", "hotUpgradeEmptyImage": "e:1"}
)
BY_INSTANCE: Final = {
    "matchExpressions": [{"key": "apps.kruise.io/cloneset-instance-id", "operator": "Exists"}]
}
ROWS: Final[Mapping[str, Mapping[str, Any]]] = {
    "a sidecar": {},
    "a hot sidecar": {"containers": [HOT]},
    "by the name of the instance": {"selector": BY_INSTANCE},
}


def running(**spec: Any) -> Lab:
    lab = Lab(gates=GATES)
    lab.world.handle(create(lab.world, sidecarset(**spec)), lab.now)
    lab.apply(cloneset(podUpdatePolicy="ReCreate", maxUnavailable=2))
    lab.run(600)
    return lab


@pytest.mark.parametrize("row", ROWS)
def test_a_lean_rollout_with_sidecars_equals_a_full_one(row: str) -> None:
    lab = running(**ROWS[row])
    body = {"spec": {"replicas": 6, **image("v2")["spec"]}}
    full_trace, full = played(lab, body, lean=False)
    lean_trace, lean = played(lab, body, lean=True)
    assert full_trace == lean_trace
    assert contents(full) == contents(lean)


def test_each_copy_carries_the_time_it_was_made() -> None:
    lab = running()
    _, lean = played(lab, image("v2"), lean=True)
    pods = lean.objects(PODS, SPACE)
    assert {injected_sets(one["metadata"]["annotations"]) for one in pods} == {("ss",)}
    for one in pods:
        mark = mark_of(one["metadata"]["annotations"], "ss")
        assert mark.updated == one["metadata"]["creationTimestamp"]
    assert len({one["metadata"]["creationTimestamp"] for one in pods}) > 1
    assert lean.state.admission_cache


def test_a_copy_ends_where_the_sets_change() -> None:
    lab = running()
    twin = lab.world.fork(fast_path=True)
    (owner,) = {p["metadata"]["ownerReferences"][0]["uid"] for p in twin.objects(PODS, SPACE)}

    def born(name: str) -> Obj:
        made = pod(name)
        ref = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet", "name": "web",
               "uid": owner, "controller": True}  # fmt: skip
        made["metadata"] |= {"namespace": SPACE, "labels": {"app": "web"}, "ownerReferences": [ref]}
        return twin.handle(create(twin, made), lab.now).body

    first, copy = born("a"), born("b")
    assert first["spec"] is copy["spec"]
    second = sidecarset("two", containers=[container("two")])
    twin.handle(create(twin, second), lab.now)
    assert [c["name"] for c in born("c")["spec"]["containers"]][:2] == ["log", "two"]


PINNED: Final = {"injectionStrategy": {"revision": {"customVersion": "v1"}}}
BARRIER: Final = {"name": "KRUISE_CONTAINER_BARRIER"}


@pytest.mark.parametrize(
    ("env", "notes", "spec", "kept"),
    [
        pytest.param([], {}, {}, True, id="plain"),
        pytest.param([BARRIER], {}, {}, False, id="a barrier carries the pod's name"),
        pytest.param([], {"kruise.io/sidecarset-hash": "{}"}, {}, False, id="marks of its own"),
        pytest.param([], {}, PINNED, False, id="an old revision"),
        pytest.param([], {}, {"selector": BY_INSTANCE}, False, id="sibling-specific field"),
    ],
)
def test_what_leaves_a_mold(env: Any, notes: Any, spec: dict[str, Any], *, kept: bool) -> None:
    sent = {"metadata": {"annotations": notes}, "spec": {}}
    made = {"metadata": {}, "spec": {"containers": [container(env=env)]}}
    assert is_reusable(sent, made, [sidecarset(**spec)]) is kept
