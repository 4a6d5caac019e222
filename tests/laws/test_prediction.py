"""What a plan promises is what the live controller then does: the pods, the waves, their order.

A failure prints the line that plays its case again; more cases:
HYPOTHESIS_PROFILE=night pytest tests/laws/test_prediction.py
"""

from __future__ import annotations

from typing import Any, Final

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.laws.examples import one_in
from tests.laws.foretell import Case, check

BIG: Final = 500 if one_in(1) > 1000 else 40  # by night
amounts = st.one_of(st.integers(0, 6), st.integers(0, 100).map(lambda n: f"{n}%"))
TIERS: Final = [
    {},
    {"scatterStrategy": [{"key": "tier", "value": "tier-a"}]},
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


@st.composite
def rolling(draw: st.DrawFn) -> dict[str, Any]:
    policy = draw(st.sampled_from(["ReCreate", "InPlaceIfPossible", "InPlaceOnly"]))
    surge = 0 if policy == "InPlaceOnly" else draw(st.one_of(st.just(0), amounts))
    down = draw(st.one_of(st.integers(1, 5), st.integers(10, 100).map(lambda n: f"{n}%")))
    made: dict[str, Any] = {
        "podUpdatePolicy": policy,
        "partition": draw(st.one_of(st.just(0), amounts)),
        "maxUnavailable": down,
        "maxSurge": surge,
        **draw(st.sampled_from(TIERS)),
    }
    if policy != "ReCreate" and draw(st.booleans()):
        made["inPlaceUpdateStrategy"] = {"gracePeriodSeconds": draw(st.integers(1, 5))}
    if not draw(st.integers(0, 9)):
        made["paused"] = True
    return made


@st.composite
def cases(draw: st.DrawFn) -> Case:
    replicas = draw(st.one_of(st.integers(1, 12), st.integers(1, 12), st.integers(1, BIG)))
    some = st.sets(st.integers(0, min(replicas, 20) - 1), max_size=3)
    return Case(
        replicas=replicas,
        grow=draw(st.sampled_from([0, 0, 0, 2, -1])),
        image=draw(st.sampled_from(["app:v2", "app:v2", "app:v2", "app:unready", "app:bad"])),
        env=draw(st.booleans()),
        min_ready_s=draw(st.sampled_from([0, 0, 3])),
        on_delete=not draw(st.integers(0, 9)),
        rolling=draw(rolling()),
        sick=tuple(sorted(draw(some))),
        tiers=draw(st.text("abc", min_size=1, max_size=4)),
    )


@settings(max_examples=one_in(4))
@given(cases())
def test_prediction_equals_fact(case: Case) -> None:
    check(case)
