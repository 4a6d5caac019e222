"""Which statuses follow from records: words, limits, pauses, and a last word for everybody."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.notifications import CommitStatusItem, LastStatus, StatusState
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.notify.commit_statuses import (
    CONTEXT_MAX,
    DESCRIPTION_MAX,
    ENDS_ONLY_FROM,
    WRITES_MAX,
    abandoned,
    aggregate_context,
    closing,
    due,
    statuses,
)
from tests.gitops.stage import WEB
from tests.worlds import START

TEMPLATE: Final = "gitkruise/{cluster}/{unit}"
ONE, TWO, THREE = (GitCommit(id=item * 40, subject=item) for item in "123")


def rollout(state: State, **more: Any) -> Rollout:
    fields: dict[str, Any] = {
        "key": WEB, "state": state, "message": "", "replicas": 40, "partition": "28", "kept": 28,
        "asked": 12, "updated": 12, "updated_ready": 12, "ready": 40, "total": 40,
        "available": 40, "budget": 1, "in_place": True, "update_revision": "b",
        "current_revision": "a", **more,
    }  # fmt: skip
    return Rollout(**fields)


def record(unit: str, state: State, commit: GitCommit | None = ONE, **more: Any) -> UnitRecord:
    given_: dict[str, Any] = {
        "unit": unit, "cluster": "prod", "source": "main", "state": state, "message": "",
        "since": START, "causal": commit, "attempted": commit, **more,
    }  # fmt: skip
    return UnitRecord(**given_)


def statuses_of(*records: UnitRecord, above: int = 20, template: str = TEMPLATE) -> dict[str, Any]:
    """`commit's first letter context` → (state, description)."""
    found = statuses(
        {r.unit: r for r in records}, template, "prod",
        aggregate_above=above, alone=len(records) == 1,
    )  # fmt: skip
    return {f"{x.commit[0]} {x.context}": (x.state, x.description) for x in found}


WORDS: Final[list[tuple[str, UnitRecord, str, str]]] = [
    ("held", record("shop/web", State.HELD, rollouts=(rollout(State.HELD),)),
     "success", "held at partition 28 (12/40 updated)"),
    ("done", record("shop/web", State.DONE, rollouts=(rollout(State.DONE, updated=40),)),
     "success", "done (40/40 updated)"),
    ("rolling", record("shop/web", State.ROLLING, rollouts=(rollout(State.ROLLING, updated=3),)),
     "pending", "rolling: 3/40 updated, 12 asked"),
    ("paused", record("shop/web", State.PAUSED, message="paused: true in git"),
     "success", "paused: true in git"),
    ("stuck", record("shop/web", State.STUCK, rollouts=(rollout(State.STUCK, message="no image"),)),
     "failure", "stuck: no image"),
    ("drifted", record("shop/web", State.DRIFTED, message="1 field differs"),
     "failure", "1 field differs"),
    ("rejected", record("shop/web", State.REJECTED, ONE, attempted=TWO, message="GK1001: bad"),
     "error", "GK1001: bad"),
    ("unknown", record("shop/web", State.UNKNOWN, message="GK4101: no answer"),
     "error", "GK4101: no answer"),
]  # fmt: skip


def test_statuses_of_removed_units_are_closed_and_their_history_stays() -> None:
    def last(state: str, minute: int) -> LastStatus:
        return LastStatus(state, "", START + timedelta(minutes=minute))

    known = [
        ("1", "gitkruise/prod/shop/web", last("failure", 0)),
        ("3", "gitkruise/prod/shop/old", last("error", 2)),
        ("2", "gitkruise/prod/shop/old", last("pending", 1)),
        ("1", "gitkruise/prod/shop/old", last("failure", 0)),
        ("3", "gitkruise/prod/shop/fine", last("success", 2)),
    ]
    found = abandoned(known, {"gitkruise/prod/shop/web"})
    assert [(x.commit, x.context, x.state) for x in found] == [
        ("3", "gitkruise/prod/shop/old", "success"),
        ("2", "gitkruise/prod/shop/old", "success"),
    ]


@pytest.mark.parametrize(
    ("given_", "state", "words"), [w[1:] for w in WORDS], ids=[w[0] for w in WORDS]
)
def test_a_state_is_reported_in_words(given_: UnitRecord, state: str, words: str) -> None:
    commit = "2" if given_.state is State.REJECTED else "1"
    assert statuses_of(given_) == {f"{commit} gitkruise/prod/shop/web": (state, words)}


def test_nothing_is_reported_of_what_has_no_commit() -> None:
    assert statuses_of(record("shop/web", State.UNKNOWN, None)) == {}


def test_several_units_have_a_status_each_and_one_over_all() -> None:
    found = statuses_of(
        record("shop/web", State.DONE), record("shop/db", State.STUCK, message="no disk")
    )
    assert found == {
        "1 gitkruise/prod": ("failure", "1 done, 1 stuck of 2 units: shop/db"),
        "1 gitkruise/prod/shop/web": ("success", "done"),
        "1 gitkruise/prod/shop/db": ("failure", "no disk"),
    }


def test_many_units_share_one_status_and_those_that_failed_have_their_own() -> None:
    many = [record(f"shop/u{n:02}", State.DONE) for n in range(30)]
    found = statuses_of(*many[:-1], replace(many[-1], state=State.STUCK), above=20)
    assert found == {
        "1 gitkruise/prod": ("failure", "29 done, 1 stuck of 30 units: shop/u29"),
        "1 gitkruise/prod/shop/u29": ("failure", "stuck"),
    }


def test_a_context_without_unit_is_one_over_all() -> None:
    found = statuses_of(record("shop/web", State.DONE), template="rollout ({cluster})")
    assert found == {"1 rollout (prod)": ("success", "shop/web: done")}


def test_overtaken_commits_get_a_last_status_and_merged_branches_share_the_merge() -> None:
    merge = replace(THREE, parents=("0" * 40, TWO.id))
    found = statuses_of(
        record("shop/web", State.HELD, merge, superseded=((ONE, merge.id), (TWO, merge.id)),
               rollouts=(rollout(State.HELD),))
    )  # fmt: skip
    held = ("success", "held at partition 28 (12/40 updated)")
    assert found == {
        "3 gitkruise/prod/shop/web": held,
        "2 gitkruise/prod/shop/web": held,
        "1 gitkruise/prod/shop/web": ("success", "superseded by 3333333"),
    }


def test_what_was_left_pending_is_closed_when_units_moved_on() -> None:
    wanted = statuses({"shop/web": record("shop/web", State.DONE, TWO)}, TEMPLATE, "prod",
                      aggregate_above=20, alone=True)  # fmt: skip
    left = [(ONE.id, "gitkruise/prod/shop/web"), (TWO.id, "gitkruise/prod/shop/web"), (ONE.id, "x")]
    assert closing(left, wanted) == [
        CommitStatusItem(
            ONE.id, "gitkruise/prod/shop/web", "success", "superseded by 2222222", overtaken=True
        )
    ]


@pytest.mark.parametrize(
    ("before", "state", "words", "pause"),
    [
        (None, "pending", "a", 0.0),
        (("pending", "a", 1), "pending", "a", None),
        (("pending", "a", 1), "pending", "b", 30.0),
        (("pending", "a", 1), "success", "a", 0.0),
        (("success", "a", 1), "success", "b", 15.0),
        (("pending", "a", 30), "pending", "b", None),
        (("pending", "a", 39), "success", "b", 0.0),
        (("success", "a", ENDS_ONLY_FROM), "pending", "b", None),
        (("success", "a", ENDS_ONLY_FROM), "failure", "b", 0.0),
        (("success", "a", WRITES_MAX), "failure", "b", None),
    ],
)
def test_news_are_reported_immediately_counts_after_a_pause_and_not_for_ever(
    before: tuple[str, str, int] | None, state: StatusState, words: str, pause: float | None
) -> None:
    known = LastStatus(before[0], before[1], START, before[2]) if before else None
    item = CommitStatusItem(ONE.id, "x", state, words)
    when = due(known, item, START)
    assert when == (None if pause is None else START + timedelta(seconds=pause))


@pytest.mark.slow
@given(
    states=st.lists(
        st.tuples(st.sampled_from(["pending", "success", "failure", "error"]), st.text(max_size=3)),
        min_size=100, max_size=200,
    )
)  # fmt: skip
def test_no_commit_and_context_is_written_more_than_fifty_times(
    states: list[tuple[StatusState, str]],
) -> None:
    last, writes, now = None, 0, START
    for state, words in states:
        item, now = CommitStatusItem(ONE.id, "x", state, words), now + timedelta(minutes=1)
        when = due(last, item, now)
        if when is not None:
            writes += 1
            last = LastStatus(item.state, item.description, when, writes)
    assert writes <= 50


TEXT: Final = st.text(max_size=400)


@given(text=TEXT, unit=st.text(min_size=1, max_size=300), state=st.sampled_from(list(State)))
def test_any_words_fit_what_forges_take(text: str, unit: str, state: State) -> None:
    moving = rollout(state, message=text)
    for one in (record(unit, state, message=text), record(unit, state, rollouts=(moving,) * 9)):
        for item in statuses({unit: one}, TEMPLATE, "prod", aggregate_above=1, alone=False):
            assert len(item.description) <= DESCRIPTION_MAX
            assert len(item.context) <= CONTEXT_MAX
            assert "\n" not in item.description
            assert item.state in {"pending", "success", "failure", "error"}


def test_the_context_over_all_is_never_empty() -> None:
    assert aggregate_context("{unit}", "prod") == "gitkruise"
    assert aggregate_context("a/{cluster}-{unit}/b", "prod") == "a/prod"


@pytest.mark.parametrize("template", [TEMPLATE, "production"])
def test_what_is_over_all_units_of_a_shard_is_its_own(template: str) -> None:
    """Else the shards of a cluster would overwrite each other's status and deployment."""
    records = {name: record(name, State.DONE) for name in ("shop/a", "shop/b")}
    contexts = [
        {
            item.context
            for item in statuses(
                records, template, "prod", aggregate_above=20, alone=False, part=part
            )
        }
        for part in ("", "shard-0-of-2", "shard-1-of-2")
    ]
    own = {f"gitkruise/prod/{name}" for name in records} if template == TEMPLATE else set()
    over_all = "gitkruise/prod" if template == TEMPLATE else template
    assert contexts == [
        {over_all, *own}, {f"{over_all}/shard-0-of-2", *own}, {f"{over_all}/shard-1-of-2", *own}
    ]  # fmt: skip
