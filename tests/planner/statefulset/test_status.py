"""Status of an Advanced StatefulSet, and facts of its spec."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.errors import Forbidden
from gitkruise.model.planning.plan import Applied, Create, Event, Refused
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.statefulset.facts import (
    CREATED_MAX,
    ordinal_of,
    reserved_range,
    stateful_set_facts,
)
from gitkruise.planner.statefulset.status import StatusConclusion
from tests.planner.statefulset.build import StatefulLab, advanced

NOW = datetime(2026, 11, 25, tzinfo=UTC)
POD = Create(
    obj={"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "db-0"}},
    failed=Event("Warning", "FailedCreate", "create Pod db-0 failed error: "),
)


def test_asts_81_counters() -> None:
    lab = StatefulLab(replicas=4, rolling={"partition": 2})
    lab.update()
    status = dict(lab.status)
    assert status.pop("currentRevision") != status.pop("updateRevision")
    assert status == {
        "observedGeneration": 2,
        "replicas": 4,
        "readyReplicas": 4,
        "availableReplicas": 4,
        "currentReplicas": 2,
        "updatedReplicas": 2,
        "updatedReadyReplicas": 2,
        "updatedAvailableReplicas": 2,
        "collisionCount": 0,
        "labelSelector": "app=db",
    }


def test_asts_82_the_current_revision_follows_when_all_pods_are_updated() -> None:
    lab = StatefulLab(rolling={"partition": 1})
    lab.update()
    assert lab.status["currentRevision"] != lab.status["updateRevision"]
    lab.rolling(partition=0)
    assert lab.status["currentRevision"] == lab.status["updateRevision"]


def test_asts_84_a_refused_pod_is_a_condition_until_one_is_created() -> None:
    refused = StatusConclusion({"replicas": 0}, {"replicas": 0}, NOW)(
        [Refused(action=POD, error=Forbidden("quota exceeded"))]
    )
    assert refused is not None
    (condition,) = refused["conditions"]
    assert (condition["type"], condition["status"]) == ("FailedCreatePod", "True")
    assert "quota exceeded" in condition["message"]
    again = StatusConclusion(refused, {"replicas": 0}, NOW)
    assert again([Refused(action=POD, error=Forbidden("quota exceeded"))]) is None
    assert again([Applied(action=POD)]) == {"replicas": 0}


@pytest.mark.parametrize(
    ("name", "ordinal"),
    [
        ("db-0", 0),
        ("db-12", 12),
        ("db-01", None),
        ("db-x", None),
        ("db--1", None),
        ("other-1", None),
        ("db-1-2", None),
        ("db-99999999999", None),
    ],
)
def test_ordinal_of(name: str, ordinal: int | None) -> None:
    assert ordinal_of(name, "db") == ordinal


@pytest.mark.parametrize(
    ("value", "span"),
    [
        (3, (3, 3)),
        ("3-5", (3, 5)),
        ("0003-005", (3, 5)),
        ("5-3", None),
        ("3", None),
        ("a-b", None),
        ("1-2-3", None),
        ("", None),
    ],
)
def test_asts_18_reserved_range(value: int | str, span: tuple[int, int] | None) -> None:
    assert reserved_range(value) == span


@given(
    replicas=st.integers(0, 30),
    start=st.integers(0, 20),
    reserved=st.lists(
        st.one_of(
            st.integers(0, 40),
            st.tuples(st.integers(0, 40), st.integers(0, 10)).map(lambda p: f"{p[0]}-{sum(p)}"),
        )
    ),
)
def test_asts_30_ordinals_are_the_first_that_are_free(
    replicas: int, start: int, reserved: list[int | str]
) -> None:
    raw = advanced(replicas, reserveOrdinals=reserved, ordinals={"start": start})
    found = stateful_set_facts(raw).ordinals(Gates(stateful_set_start_ordinal=True), ())
    taken = {
        n for r in reserved for first, last in [reserved_range(r) or (1, 0)]
        for n in range(first, last + 1)
    }  # fmt: skip
    expected: list[int] = []
    at = start
    while len(expected) < replicas:
        if at not in taken:
            expected.append(at)
        at += 1
    assert list(found) == expected
    facts = stateful_set_facts(raw)
    gates = Gates(stateful_set_start_ordinal=True)
    places = {at: facts.position(at, gates) for at in range(200)}
    assert {at: place for at, place in places.items() if place is not None} == {
        at: place for place, at in enumerate(expected)
    }


def test_a_wide_reserved_range_costs_nothing() -> None:
    raw = advanced(2, reserveOrdinals=["0-2000000000"])
    assert stateful_set_facts(raw).ordinals(Gates(), ()) == (2000000001, 2000000002)


def test_a_huge_set_is_looked_at_in_parts() -> None:
    """A pod far above missing ones stays in range."""
    facts = stateful_set_facts(advanced(2**31 - 1))
    found = facts.ordinals(Gates(), (7, 5_000))
    assert (found[0], found[-2], found[-1]) == (0, CREATED_MAX + 1, 5_000)


def test_a_claim_template_without_a_name_means_none() -> None:
    assert stateful_set_facts(advanced(volumeClaimTemplates=[{}])).claim_templates == []


def test_an_unreadable_amount_moves_no_pod() -> None:
    raw = advanced(rolling={"maxUnavailable": "a third"})
    (problem,) = stateful_set_facts(raw).problems()
    assert "must be an integer or a percentage" in problem.message
