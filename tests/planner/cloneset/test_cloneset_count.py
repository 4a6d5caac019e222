"""Counting: the eighty recorded cases of what is missing and what is too much."""

from __future__ import annotations

from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.planning.amounts import Amounts, resolve_amounts
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.model.workloads.pod import LifecycleState
from gitkruise.planner.cloneset.diffs import (
    DiffRules,
    ExpectationDiffs,
    RevisionCounts,
    diff,
    tally,
)
from tests.planner.cloneset.build import cloneset, judged
from tests.planner.cloneset.diff_rows import TABLE
from tests.pods import pods

FIELDS: Final = {
    "up": "up",
    "upOld": "up_old",
    "upLimit": "up_limit",
    "down": "down",
    "downOld": "down_old",
    "delReady": "delete_ready_limit",
    "surge": "surge",
    "surgeOld": "surge_old",
    "upd": "update",
    "updMaxUn": "update_unavailable",
}
ROWS: Final = {
    line.partition("|")[0].strip(): [cell.strip() for cell in line.split("|")[1:]]
    for line in TABLE.strip().splitlines()
}


def int_or_percent(text: str) -> int | str:
    return int(text) if text.isdigit() else text


def case(cells: list[str]) -> tuple[ExpectationDiffs, ExpectationDiffs]:
    """(what the planner counts, what the row says)."""
    replicas, partition, unavailable, surge, flags, fleet_text, result = (*cells, "")[:7]
    chosen = {f.strip() for f in flags.split(",")}
    scale_mu = next((f.partition("=")[2] for f in chosen if f.startswith("scaleMU")), None)
    update = {
        "partition": int_or_percent(partition),
        "maxUnavailable": int_or_percent(unavailable),
        "maxSurge": int_or_percent(surge),
        "paused": "paused" in chosen,
    }
    scale: dict[str, Any] = {"maxUnavailable": int(scale_mu)} if scale_mu else {}
    owner = cloneset_facts(cloneset(replicas=int(replicas), update=update, scaleStrategy=scale))
    fleet = judged(pods(fleet_text))
    also = LifecycleState.PREPARING_UPDATE if "PUasU" in chosen else None
    rules = DiffRules(
        same_revision="cur=upd" in chosen,
        partition_rollback="RB off" not in chosen,
        exclude_preparing_delete="exclPD" in chosen,
    )
    pairs = (pair.split("=") for pair in result.split())
    wanted = ExpectationDiffs(**{FIELDS[key]: int(value) for key, value in pairs})
    return diff(
        resolve_amounts(owner), *tally(fleet, lambda g: g.updated or g.first.state == also), rules
    ), wanted


def test_all_rows_are_here() -> None:
    assert len(ROWS) == 80


@pytest.mark.parametrize("cells", ROWS.values(), ids=ROWS)
def test_diff(cells: list[str]) -> None:
    counted, wanted = case(cells)
    assert counted == wanted


tallies = st.builds(
    lambda total, gone, doomed, down: RevisionCounts(
        total=total + gone + doomed + down,
        preparing_delete=gone,
        to_delete=doomed,
        unavailable=down,
    ),
    *[st.integers(0, 6)] * 4,
)
amounts = st.builds(
    lambda replicas, share, surge, unavailable: Amounts(
        replicas=replicas,
        partition=min(share, replicas),
        surge=surge,
        unavailable=unavailable,
    ),
    st.integers(0, 12),
    st.integers(0, 12),
    st.integers(0, 4),
    st.integers(0, 4),
)
rules = st.builds(
    lambda same, rollback, exclude: DiffRules(
        same_revision=same, partition_rollback=rollback, exclude_preparing_delete=exclude
    ),
    st.booleans(),
    st.booleans(),
    st.booleans(),
)


@given(amounts, tallies, tallies, rules)
def test_numbers_never_contradict(
    wanted: Amounts, new: RevisionCounts, old: RevisionCounts, rule: DiffRules
) -> None:
    counted = diff(wanted, new, old, rule)
    assert not (counted.up and counted.down)
    assert counted.surge <= wanted.surge
    assert counted.up_limit <= counted.up
    assert counted.update <= max(old.active - wanted.partition, 0)  # partition is never overshot
    if not rule.partition_rollback:
        assert counted.update >= 0
