"""Laws of a rollout, held over the live controller while requests, watches and itself fail.

Every write is judged by the truth just before it takes effect. A failure prints its case; more:
HYPOTHESIS_PROFILE=night pytest tests/laws/test_live_laws.py
"""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from tests.laws.examples import one_in
from tests.laws.foretell import Case, change, prepared
from tests.laws.judge import Judge
from tests.laws.live import play
from tests.worlds import SPACE, Lab, pod


@st.composite
def strategies(draw: st.DrawFn) -> dict[str, Any]:
    surge = draw(st.integers(0, 2))
    return {
        "podUpdatePolicy": draw(st.sampled_from(["ReCreate", "InPlaceIfPossible"])),
        "maxUnavailable": draw(st.integers(0 if surge else 1, 3)),
        "maxSurge": surge,
        "partition": draw(st.integers(0, 4)),
    }


def with_strangers(lab: Lab) -> None:
    """Pods the selector matches that are nobody's, or somebody else's."""
    config = lab.apply({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x"}})
    named = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "controller": True}
    theirs = {**named, "uid": config["metadata"]["uid"]}
    for name, owners in (("orphan", []), ("theirs", [theirs])):
        meta = {"name": name, "labels": {"app": "web"}, "ownerReferences": owners}
        lab.apply({**pod(name), "metadata": meta})
    lab.run()


def strangers(lab: Lab) -> list[tuple[str, str]]:
    """(name, resourceVersion) of those pods."""
    metas = [p["metadata"] for p in lab.pods()]
    return [(m["name"], m["resourceVersion"]) for m in metas if m["name"] in {"orphan", "theirs"}]


def settled(judge: Judge, wanted: int) -> None:
    """Everything asked for is there, and said so."""
    assert judge.broken == []
    owner, found = judge.owner, judge.pods()
    assert len(found) == wanted
    update = owner.status["updateRevision"]
    old = sum(not p.on_revision(update) for p in found)
    assert old <= resolve_amounts(owner).partition
    status = owner.status
    assert status["observedGeneration"] == owner.generation
    assert status["replicas"] == status["availableReplicas"] == wanted
    assert status["updatedAvailableReplicas"] == wanted - old


@settings(max_examples=one_in(4))
@given(st.integers(1, 6), strategies(), st.sampled_from([-1, 0, 0, 2]), st.integers(0, 2**32))
def test_rollout_keeps_its_limits_and_converges(
    replicas: int, rolling: dict[str, Any], grow: int, seed: int
) -> None:
    case = Case(replicas=replicas, grow=grow, rolling=rolling)
    lab = prepared(case)
    judge = Judge(lab.world)
    play(lab.world, lab.now, change(case), judge=judge, seed=seed)
    settled(judge, max(0, replicas + grow))


@settings(max_examples=one_in(8))
@given(st.integers(1, 4), strategies(), st.integers(0, 2**32))
def test_strangers_are_never_touched(replicas: int, rolling: dict[str, Any], seed: int) -> None:
    case = Case(replicas=replicas, rolling=rolling)
    lab = prepared(case)
    with_strangers(lab)
    before = strangers(lab)
    judge = Judge(lab.world)
    play(lab.world, lab.now, change(case), judge=judge, seed=seed)
    assert judge.broken == []
    assert len(before) == 2
    assert strangers(lab) == before


@settings(max_examples=one_in(8))
@given(st.integers(1, 5), strategies(), st.integers(0, 2**32))
def test_an_unchanged_template_restarts_nobody(
    replicas: int, rolling: dict[str, Any], seed: int
) -> None:
    case = Case(replicas=replicas, image="app:v1", rolling=rolling)
    lab = prepared(case)
    before = {p.uid: p.restarts for p in Judge(lab.world).pods()}
    judge = Judge(lab.world, still=True)
    play(lab.world, lab.now, change(case), judge=judge, seed=seed)
    assert judge.broken == []
    assert {p.uid: p.restarts for p in judge.pods()} == before


SOON: Final = timedelta(minutes=2)
STOPS: Final = {
    "recreate": Case(replicas=2, rolling={"podUpdatePolicy": "ReCreate", "maxUnavailable": 1}),
    "surge": Case(
        replicas=2, rolling={"podUpdatePolicy": "ReCreate", "maxUnavailable": 0, "maxSurge": 1}
    ),
    "in place with grace": Case(
        replicas=3,
        grow=1,
        rolling={
            "podUpdatePolicy": "InPlaceIfPossible",
            "maxUnavailable": 2,
            "partition": 1,
            "inPlaceUpdateStrategy": {"gracePeriodSeconds": 2},
        },
    ),
}


@pytest.mark.parametrize("case", STOPS.values(), ids=STOPS)
def test_a_controller_killed_at_any_write_is_taken_over(case: Case) -> None:
    lab = prepared(case)
    whole = Judge(lab.world.fork())
    play(whole.world, lab.now, change(case), judge=whole)
    settled(whole, case.replicas + case.grow)
    assert whole.writes
    for at in range(1, len(whole.writes) + 2):
        judge = Judge(lab.world.fork())
        play(
            judge.world,
            lab.now,
            change(case),
            judge=judge,
            stop_at=at,
            lasts=SOON,
        )
        settled(judge, case.replicas + case.grow)


def test_the_judge_notices() -> None:
    """A law that cannot fail proves nothing."""
    lab = prepared(Case(replicas=3, rolling={}))
    held = Case(replicas=3, rolling={"podUpdatePolicy": "InPlaceIfPossible", "partition": 3})
    lab.world.handle(change(held), lab.now)
    lab.run()
    judge = Judge(lab.world, still=True)
    victim, other = (p["metadata"] for p in lab.pods()[:2])
    guards = {"uid": victim["uid"], "resourceVersion": victim["resourceVersion"]}
    delete = ApiRequest(
        verb="delete",
        resource=ResourceRef("", "v1", "pods"),
        namespace=SPACE,
        name=victim["name"],
        body={"preconditions": guards},
    )
    lab.delete({"apiVersion": "v1", "kind": "Pod", "metadata": other})
    judge.look(delete, lab.now)
    judge.look(replace(delete, body={}), lab.now)
    lab.run()
    judge.look(replace(delete, verb="create", name="", body={"metadata": {"name": "x"}}), lab.now)
    with_strangers(lab)
    judge.look(replace(delete, name="orphan"), lab.now)
    assert [b.partition(" (")[0] for b in judge.broken] == [
        "a pod is disturbed although its template is what it was",
        "1 available of 3",
        "1 pods left on the old revision",
        "a write that holds for any version",
        "more pods than replicas and maxSurge allow",
        "somebody else's pod is touched",
    ]
