"""Laws of a SidecarSet's rollout, held over the live controller while everything fails; and that
a plan promises what then happens.

Every write is judged by the truth just before it takes effect. More cases:
HYPOTHESIS_PROFILE=night pytest tests/laws/test_sidecar_laws.py
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.sidecarset.observe import observe_sidecarset
from gitkruise.planner.sidecarset.plan import plan_sidecarset
from gitkruise.planner.sidecarset.progress import stand
from gitkruise.planner.workloads import CLONESET, SIDECARSET
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.laws.examples import one_in
from tests.laws.live import play
from tests.laws.sidecars import MESH, Case, Judge, change, check, mesh, prepared
from tests.worlds import SPACE, Lab, cloneset, container, pod

ONLY: Final = (SIDECARSET,)
TIERS: Final = [
    {},
    {},
    {"scatterStrategy": [{"key": "tier", "value": "*"}]},
    {"priorityStrategy": {"orderPriority": [{"orderedKey": "tier"}]}},
    {
        "priorityStrategy": {
            "weightPriority": [
                {"weight": 10, "matchSelector": {"matchLabels": {"tier": "tier-a"}}},
                {"weight": 5, "matchSelector": {"matchLabels": {"tier": "tier-b"}}},
            ]
        }
    },
]
amounts = st.one_of(st.integers(0, 4), st.integers(0, 100).map(lambda n: f"{n}%"))


@st.composite
def updates(draw: st.DrawFn) -> dict[str, Any]:
    down = draw(st.one_of(st.integers(1, 4), st.integers(1, 100).map(lambda n: f"{n}%")))
    return {
        "maxUnavailable": down,
        "partition": draw(st.one_of(st.just(0), amounts)),
        **draw(st.sampled_from(TIERS)),
    }


@st.composite
def cases(draw: st.DrawFn) -> Case:
    replicas = draw(st.integers(1, 8))
    return Case(
        replicas=replicas,
        older=draw(st.sampled_from([0, 0, 1, 2])) % (replicas + 1),
        hot=draw(st.booleans()),
        args=not draw(st.integers(0, 5)),
        update=draw(updates()),
        tiers=draw(st.text("abc", min_size=1, max_size=4)),
    )


def settled(judge: Judge) -> None:
    """Everything asked for is there, nothing more, and said so."""
    assert judge.broken == []
    owner = judge.owner
    it = stand(owner, judge.world.pods(""))
    assert len(it.updated) == it.up == it.asked
    assert owner.status["observedGeneration"] == owner.generation
    counted = [owner.status.get(n, 0) for n in ("matchedPods", "updatedPods", "updatedReadyPods")]
    assert counted == [len(it.pods), len(it.updated), it.up]


@settings(max_examples=one_in(4))
@given(cases(), st.integers(0, 2**32))
def test_rollout_keeps_its_limits_and_converges(case: Case, seed: int) -> None:
    lab = prepared(case)
    judge = Judge(lab.world)
    play(lab.world, lab.now, change(case), judge=judge, seed=seed, workloads=ONLY)
    settled(judge)


@settings(max_examples=one_in(8))
@given(cases(), st.integers(0, 2**32))
def test_a_push_into_a_running_rollout_keeps_the_limits(case: Case, seed: int) -> None:
    """Half way to one image comes another; then the first one again."""
    lab = prepared(case)
    judge = Judge(lab.world)
    for at, (image, lasts) in enumerate((("mesh:v2", 4), ("mesh:v3", 4), ("mesh:v2", 1200))):
        write = change(replace(case, image=image))
        now = lab.now + timedelta(seconds=4 * at)
        play(
            lab.world, now, write, judge=judge, seed=seed, workloads=ONLY,
            faults=timedelta(seconds=2), lasts=timedelta(seconds=lasts),
        )  # fmt: skip
    settled(judge)


@settings(max_examples=one_in(8))
@given(cases(), st.integers(0, 2**32))
def test_strangers_are_never_touched(case: Case, seed: int) -> None:
    """Pods that the selector matches and the set was not injected into."""
    lab = prepared(case)
    lab.patch(pod_of(lab, 0), {"metadata": {"annotations": {LISTED: "other"}}})
    before = pod_of(lab, 0)["metadata"]["resourceVersion"]
    judge = Judge(lab.world)
    play(lab.world, lab.now, change(case), judge=judge, seed=seed, workloads=ONLY)
    assert judge.broken == []
    assert pod_of(lab, 0)["metadata"]["resourceVersion"] == before


LISTED: Final = "kruise.io/sidecarset-injected-list"


def pod_of(lab: Lab, at: int) -> Any:
    return lab.pods()[at]


@settings(max_examples=one_in(8))
@given(cases(), st.integers(0, 2**32))
def test_unchanged_sidecars_restart_nobody(case: Case, seed: int) -> None:
    same = replace(case, image="mesh:v1", args=False, older=0)
    lab = prepared(same)
    judge = Judge(lab.world, still=True)
    before = {j.pod.uid: j.pod.restarts for j in judge.pods()}
    play(lab.world, lab.now, change(same), judge=judge, seed=seed, workloads=ONLY)
    settled(judge)
    assert {j.pod.uid: j.pod.restarts for j in judge.pods()} == before


@settings(max_examples=one_in(8))
@given(cases(), st.integers(0, 2**32))
def test_together_with_a_cloneset_nobody_undoes_the_other(case: Case, seed: int) -> None:
    """An in-place update of the CloneSet runs on the same pods at the same time."""
    lab = prepared(replace(case, args=False))
    template = {"template": {"spec": {"containers": [container(image="app:v2")]}}}
    lab.patch(cloneset(), {"spec": template})
    judge = Judge(lab.world)
    judge.look = lambda *_: None  # type: ignore[method-assign]  # two controllers write here
    both = (CLONESET, SIDECARSET)
    write = change(replace(case, args=False))
    play(lab.world, lab.now, write, judge=judge, seed=seed, workloads=both)
    settled(judge)
    for judged in judge.pods():
        images = {c.name: c.image for c in judged.pod.containers}
        assert images["app"] == "app:v2"
        assert len(images) == (3 if case.hot else 2), "nothing injected is lost"


@settings(max_examples=one_in(8))
@given(cases(), st.integers(1, 60))
def test_the_same_snapshot_gives_the_same_plan(case: Case, tenths: int) -> None:
    lab = prepared(case)
    lab.world.handle(change(case), lab.now)
    lab.run(tenths / 10)
    snapshots = [observe_sidecarset(w, MESH, lab.now) for w in (lab.world, lab.world.fork())]
    plans = [plan_sidecarset(s, Gates()) for s in snapshots if s is not None]
    assert len(plans) == 2
    assert plans[0] == plans[1]


STOPS: Final = {
    "cold": Case(replicas=3, update={"maxUnavailable": 2, "partition": 1}),
    "hot": Case(replicas=2, hot=True),
    "pods that cannot": Case(replicas=3, older=1, update={"maxUnavailable": 2}),
}


@pytest.mark.parametrize("case", STOPS.values(), ids=STOPS)
def test_a_controller_killed_at_any_write_is_taken_over(case: Case) -> None:
    lab = prepared(case)
    whole = Judge(lab.world.fork())
    play(whole.world, lab.now, change(case), judge=whole, workloads=ONLY)
    settled(whole)
    assert whole.writes
    for at in range(1, len(whole.writes) + 2):
        judge = Judge(lab.world.fork())
        play(
            judge.world, lab.now, change(case), judge=judge, stop_at=at, workloads=ONLY,
            lasts=timedelta(minutes=2),
        )  # fmt: skip
        settled(judge)


@st.composite
def prophecies(draw: st.DrawFn) -> Case:
    case = draw(cases())
    some = st.sets(st.integers(0, case.replicas - 1), max_size=2)
    update = {**case.update, **({"paused": True} if not draw(st.integers(0, 9)) else {})}
    image = draw(st.sampled_from(["mesh:v2", "mesh:v2", "mesh:v2", "mesh:unready", "mesh:bad"]))
    return replace(case, image=image, sick=tuple(sorted(draw(some))), update=update)


@settings(max_examples=one_in(4))
@given(prophecies())
def test_prediction_equals_fact(case: Case) -> None:
    check(case)


def test_the_judge_notices() -> None:
    """A law that cannot fail proves nothing."""
    case = Case(replicas=2, older=1, update={"partition": 1})
    lab = prepared(case)
    lab.world.handle(change(case), lab.now)
    lab.apply(pod("stray"))
    lab.run()
    judge = Judge(lab.world, still=True)
    old, young = (j.pod for j in sorted(judge.pods(), key=lambda j: j.fits))

    def write(name: str, version: str, image: str = "x", verb: str = "patch") -> ApiRequest:
        meta = {"uid": "u", **({"resourceVersion": version} if version else {})}
        spec = {"containers": [{"name": image, "image": "x:1"}]}
        return ApiRequest(
            verb=verb, resource=ResourceRef("", "v1", "pods"), namespace=SPACE, name=name,
            body={"metadata": meta, "spec": spec},
        )  # fmt: skip

    judge.look(write(young.name, ""), lab.now)
    judge.look(write(young.name, young.resource_version), lab.now)
    judge.look(write(old.name, old.resource_version, "mesh"), lab.now)
    judge.look(write("stray", "1"), lab.now)
    judge.look(write(old.name, "1", verb="update"), lab.now)
    broken = [b.partition(" (")[0] for b in judge.broken]
    assert set(broken) >= {
        "a write that holds for any version",
        "a container changes although the sidecars are what they were",
        "a container that is not ours changes",
        "a pod changes that differs in more than images",
        "0 pods left on the old revision",
        "a pod that is not matched is touched",
        "a pod is not patched",
    }
    assert mesh(case, "mesh:v2")["image"] == "mesh:v2"
