"""Measurements as users see them: in the record, in conditions, in comments and in `why`."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from gitkruise.cli.views.promotion import analysis_lines, progress
from gitkruise.gitops.resources.conditions import unit_conditions
from gitkruise.gitops.status.codecs import PROMOTION
from gitkruise.model.gitops.analysis import AnalysisPhase, AnalysisRun
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.notifications import PullRequestReport
from gitkruise.model.gitops.promotion import PromotionRecord
from gitkruise.model.gitops.record import Rollout, UnitRecord
from gitkruise.model.gitops.unit_state import State
from gitkruise.planner.analysis.schedule import blocks
from gitkruise.planner.notify.outcomes import follow
from tests.gitops.stage import WEB
from tests.planner.analysis.test_verdicts import metric, played
from tests.worlds import START

COMMIT = GitCommit(id="a" * 40, subject="canary", author="Kim")
RUNNING = replace(played("s", metric(interval="1m", count=3)), pods=1)
GOOD = replace(played("ss", metric(interval="1m", count=2)), pods=1)
BAD = replace(played("sf", metric(interval="1m", count=2)), pods=2, note="counted anew")
ODD = replace(played("i", metric()), pods=1)
RUNS = {"running": RUNNING, "good": GOOD, "bad": BAD, "odd": ODD}


def promotion(run: AnalysisRun, step: int = 1) -> PromotionRecord:
    return PromotionRecord(key=WEB, step=step, steps=3, next="50%", why=blocks(run), analysis=run)


def record(run: AnalysisRun, *, step: int = 1, revision: str = "web-abc") -> UnitRecord:
    rollout = Rollout(
        key=WEB, state=State.HELD, message="held", replicas=4, partition="75%", kept=3, asked=1,
        updated=1, updated_ready=1, ready=4, total=4, available=4, budget=1, in_place=False,
        update_revision=revision, current_revision="web-old",
    )  # fmt: skip
    return UnitRecord(
        unit="shop/web", cluster="test", source="main", state=State.HELD, message="held",
        since=START, attempted=COMMIT, causal=COMMIT, rollouts=(rollout,),
        promotion=promotion(run, step),
    )  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_the_file_of_a_record_has_all_of_it_except_its_mark(name: str) -> None:
    run = RUNS[name]
    document = PROMOTION.obj(promotion(run))
    assert PROMOTION.read(document) == replace(promotion(run), analysis=replace(run, mark=""))
    assert "mark" not in document["analysis"]


def test_a_failed_run_in_the_file() -> None:
    (one,) = PROMOTION.obj(promotion(BAD))["analysis"].pop("metrics")
    assert (one["successful"], one["failed"], one["inconclusive"], one["error"]) == (1, 1, 0, 0)
    assert one["measurements"] == [
        {"time": "2026-11-21T10:00:10Z", "phase": "Successful"},
        {"time": "2026-11-21T10:00:20Z", "phase": "Failed"},
    ]


def test_the_run_of_another_step_or_revision_is_not_of_now() -> None:
    assert record(BAD).analysis == BAD
    assert record(BAD, step=2).analysis is None
    assert record(BAD, revision="web-old").analysis is None


CONDITIONS = [
    ("running", "Unknown", "Running", "it is measured: errors 1 successful"),
    ("good", "True", "Successful", "errors 2 successful"),
    ("bad", "False", "Failed", (
        "the analysis has failed: errors: 1 failed, and the limit is 0, with 2 pods on revision abc"
    )),
    ("odd", "Unknown", "Inconclusive", ("the analysis is inconclusive: errors: 1 inconclusive, and "
     "the limit is 0, with 1 pod on revision abc")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "status", "reason", "text"), CONDITIONS)
def test_conditions_of_a_unit(name: str, status: str, reason: str, text: str) -> None:
    found = [
        one
        for one in unit_conditions(record(RUNS[name]), suspended=False)
        if one.type == "AnalysisSuccessful"
    ]
    assert [(one.status, one.reason, one.message) for one in found] == [
        (status, reason, f"step 1, revision abc: {text}")
    ]
    bare = replace(record(RUNNING), promotion=None)
    assert not [
        one for one in unit_conditions(bare, suspended=False) if one.type == "AnalysisSuccessful"
    ]


OUTCOMES = [
    ("running", "; being measured"),
    ("good", "; measured: errors 2 successful"),
    ("bad", ("; the analysis has failed: errors: 1 failed, and the limit is 0, with 2 pods on "
     "revision abc")),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text"), OUTCOMES)
def test_the_comment_of_a_merged_pull_request(name: str, text: str) -> None:
    report = PullRequestReport(
        number=1, state="merged", head=COMMIT.id, branch="main", commits=(COMMIT.id,)
    )
    (outcome,) = follow(report, [record(RUNS[name])])
    assert outcome.text == f"held at partition 75% (1/4 updated){text}"
    (other,) = follow(report, [record(RUNS[name], step=2)])
    assert other.text == "held at partition 75% (1/4 updated)"


def test_lines_of_why() -> None:
    now = START + timedelta(minutes=1)
    assert list(analysis_lines(BAD, now)) == [
        (
            "measurements at step 1: Failed 40 s ago: errors: 1 failed, and the limit is 0; 2 pods "
            "had revision abc"
        ),
        "- errors: 1 successful, 1 failed; last Failed 40 s ago",
        "- counted anew",
    ]
    assert progress(promotion(RUNNING), now) == (
        "step 1 of 3; not on to partition 50%: it is measured: errors 1 successful"
    )
    assert RUNNING.phase is AnalysisPhase.RUNNING
