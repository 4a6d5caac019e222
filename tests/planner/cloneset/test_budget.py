"""The update quota: who may go now, and why the rest wait."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.planning.amounts import resolve_amounts
from gitkruise.model.planning.plan import Hold
from gitkruise.model.workloads.cloneset import cloneset_facts
from gitkruise.planner.cloneset.budget import (
    UpdateQuota,
    choose_deletions,
    choose_updates,
)
from gitkruise.planner.cloneset.diffs import DiffRules, diff, tally
from tests.planner.cloneset.build import cloneset, judged
from tests.pods import NOW, pods

# replicas, partition, maxUnavailable, maxSurge, pods in order, how many are updated
UPDATES: Final = {
    "QUOTA-1": (3, 0, "20%", 0, "3o+", 1),
    "QUOTA-2 healthy first one blocks": (3, 0, 1, 0, "o+ o- o+", 0),
    "QUOTA-3": (3, 0, 1, 0, "o- 2o+", 1),
    "QUOTA-4": (10, 0, "20%", 0, "o- 7o+ o- n+", 1),
    "QUOTA-5 nothing to update": (3, 2, 3, 0, "o- o+ n+", 0),
    "QUOTA-6": (8, 2, 3, 0, "7o+ n+", 3),
    "QUOTA-7": (5, 0, 2, 0, "5o-", 2),
    "QUOTA-8": (5, 0, 2, 0, "3o- 2n-", 0),
    "QUOTA-9": (5, 0, 2, 0, "3o- n+ n-", 1),
    "QUOTA-10": (5, 0, 2, 1, "5o- n-", 2),
    "QUOTA-11": (5, 0, 2, 1, "4o- n+ n-", 2),
    "QUOTA-12": (5, 0, 2, 1, "3o- n- n+ n-", 1),
    "QUOTA-13": (5, 0, 2, 1, "3o- 3n-", 0),
    "QUOTA-14 back to the current revision": (8, 7, 3, 0, "3o+ 5n-", 3),
    "QUOTA-15": (4, 0, 2, 1, "2o+ 3n+", 1),
    "QUOTA-16": (4, 0, 2, 1, "4o+ 2n+", 2),
}


@pytest.mark.parametrize("row", UPDATES.values(), ids=UPDATES)
def test_choose_updates(row: tuple[int, int, int | str, int, str, int]) -> None:
    replicas, partition, unavailable, surge, text, accepted = row
    update = {"partition": partition, "maxUnavailable": unavailable, "maxSurge": surge}
    owner = cloneset_facts(cloneset(replicas=replicas, update=update))
    fleet = judged(pods(text))
    numbers = diff(
        resolve_amounts(owner),
        *tally(fleet, lambda g: g.updated),
        DiffRules(partition_rollback=True),
    )
    forward = numbers.update >= 0
    down = [group for group in fleet.groups if not group.available]
    quota = UpdateQuota(
        pods=abs(numbers.update),
        unavailable=numbers.update_unavailable,
        down=sum(len(group.members) for group in down),
        target_down=sum(len(group.members) for group in down if group.updated == forward),
    )
    waiting = fleet.where(lambda g: g.updated != forward)
    chosen, held = choose_updates(waiting, fleet.available, quota)
    assert len(chosen) == accepted
    assert [*chosen, *(p for _, group in held for p in group)] == waiting


HOLDS: Final = {
    "partition caps the round": ("3o+", UpdateQuota(pods=2, unavailable=9), 2, Hold.PARTITION),
    "ready pods spend budget": ("3o+", UpdateQuota(pods=3, unavailable=1), 1, Hold.BUDGET),
    "new pods must come up first": (
        "2o+",
        UpdateQuota(pods=2, unavailable=1, down=1, target_down=1),
        0,
        Hold.NEW_NOT_READY,
    ),
    "nothing may be down": ("1o+", UpdateQuota(pods=1, unavailable=0), 0, Hold.SURGE),
    "a pod was not created": (
        "3o+",
        UpdateQuota(pods=3, unavailable=0, missing=True),
        0,
        Hold.SCALE_FIRST,
    ),
}


@pytest.mark.parametrize("row", HOLDS.values(), ids=HOLDS)
def test_why_the_rest_wait(row: tuple[str, UpdateQuota, int, Hold]) -> None:
    text, quota, updated, why = row
    waiting = pods(text)
    chosen, held = choose_updates(waiting, frozenset(p.name for p in waiting), quota)
    assert len(chosen) == updated
    assert {reason for reason, group in held if group} == {why}


@given(st.lists(st.sampled_from(["o+", "o-"])), st.integers(0, 5), st.integers(0, 9))
def test_never_takes_down_more_than_allowed(marks: list[str], spare: int, update: int) -> None:
    waiting = pods(" ".join(marks))
    available = frozenset(p.name for p in waiting if p.available(NOW))
    down = len(waiting) - len(available)
    quota = UpdateQuota(pods=update, unavailable=spare, down=down)
    chosen, _ = choose_updates(waiting, available, quota)
    taken = sum(p.name in available for p in chosen)
    assert taken == 0 or down + taken <= spare
    assert len(chosen) <= min(update, spare)


def test_deleting_unavailable_pods_costs_nothing() -> None:
    wanted = pods("n- n+ n+ n-")
    available = frozenset({"web-001", "web-002"})
    chosen, waiting, left = choose_deletions(wanted, available, 1)
    assert [p.name for p in chosen] == ["web-000", "web-001", "web-003"]
    assert [p.name for p in waiting] == ["web-002"]
    assert left == 0


AMOUNTS: Final = {
    "default is a fifth, rounded up": (3, {}, (0, 0, 1)),
    "with surge it is rounded down": (3, {"maxSurge": 1}, (0, 1, 0)),
    "while paused there is no surge": (3, {"maxSurge": 1, "paused": True}, (0, 0, 1)),
    "99% of five keeps four": (5, {"partition": "99%"}, (4, 0, 1)),
    "a tenth of a percent keeps one": (10, {"partition": "0.1%"}, (1, 0, 2)),
    "100% keeps all": (5, {"partition": "100%"}, (5, 0, 1)),
    "partition above replicas": (5, {"partition": 9}, (5, 0, 1)),
}


@pytest.mark.parametrize("row", AMOUNTS.values(), ids=AMOUNTS)
def test_amounts(row: tuple[int, dict[str, object], tuple[int, int, int]]) -> None:
    replicas, update, wanted = row
    owner = cloneset_facts(cloneset(replicas=replicas, update=update))
    made = resolve_amounts(owner)
    assert (made.partition, made.surge, made.unavailable) == wanted


@pytest.mark.parametrize("field", ["partition", "maxSurge", "maxUnavailable"])
@pytest.mark.parametrize("value", ["lots", "", "%", "5%%%x"])
def test_an_amount_that_means_nothing_moves_no_pod(field: str, value: str) -> None:
    made = resolve_amounts(cloneset_facts(cloneset(replicas=5, update={field: value})))
    assert (made.partition, made.surge, made.unavailable, made.scale_unavailable) == (5, 0, 0, 0)
    assert [made.asked(updated) for updated in (0, 3, 7)] == [0, 3, 5]
    assert f'spec.updateStrategy.{field}: Invalid value: "{value}"' in made.problem_texts[0]


def test_amounts_nobody_can_read_are_named() -> None:
    owner = cloneset_facts(cloneset(update={"partition": "a third", "maxSurge": "12.5%"}))
    assert [p.field for p in resolve_amounts(owner).problems] == [
        "spec.updateStrategy.partition",
        "spec.updateStrategy.maxSurge",
    ]
