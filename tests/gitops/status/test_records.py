"""What git is told: stable files and messages, and never a secret."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from gitkruise.errors import Finding, SourcePlace
from gitkruise.gitops.runtime.restore import restored
from gitkruise.gitops.status.publisher import news
from gitkruise.gitops.status.serializer import (
    commit_body,
    commit_subject,
    commit_trailers,
    note_text,
    record_files,
    shared_files,
)
from gitkruise.gitops.status.unit_status import Reporter
from gitkruise.model.gitops.config import Reference, Unit, UnitSpec
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import (
    DriftRecord,
    ObjectRecord,
    RevisionCount,
    Rollout,
    RolloutStep,
    UnitRecord,
)
from gitkruise.model.gitops.unit_state import State
from gitkruise.wire.primitives.names import ObjectKey
from tests.clock import ManualClock
from tests.gitops.stage import WEB, MakeStage, config_map, documents

AT = datetime(2026, 11, 21, 10, tzinfo=UTC)
FIRST = GitCommit(id="8ab13d0" + "0" * 33, subject="first", author="Dana K", time=AT)
CANARY = GitCommit(id="4f2c9e1" + "0" * 33, subject="app: v2, 40 %", author="Bo L", time=AT)
STEP = RolloutStep(
    commit=FIRST, change="created, 10 pods", revision="web-d4d4fb5bd", partition="0", asked=10,
    replicas=10, started=AT, state=State.DONE, updated=10, done=AT + timedelta(seconds=40),
)  # fmt: skip
HELD = Rollout(
    key=WEB, state=State.HELD, message="4 of 10 on 56dfb978d4, held by partition 60%",
    replicas=10, partition="60%", kept=6, asked=4, updated=4, updated_ready=4, ready=10, total=10,
    available=10, budget=2, in_place=True, update_revision="web-56dfb978d4",
    current_revision="web-d4d4fb5bd",
    revisions=(
        RevisionCount(hash="56dfb978d4", role="update", pods=4, available=4, commit=CANARY.id,
                      images=(("app", "shop/web:v2"),)),
        RevisionCount(hash="d4d4fb5bd", role="current", pods=6, available=6, commit=FIRST.id,
                      images=(("app", "shop/web:v1"),)),
    ),
)  # fmt: skip
RECORD = UnitRecord(
    unit="shop/web", cluster="prod-eu", source="main", state=State.HELD,
    message="CloneSet shop/web: 4 of 10 on 56dfb978d4, held by partition 60%", since=AT,
    attempted=CANARY, applied=CANARY, causal=CANARY,
    objects=(
        ObjectRecord(key=ObjectKey("", "Secret", "shop", "key"), state=State.DONE, commit=FIRST.id),
        ObjectRecord(key=WEB, state=State.HELD, digest="sha256:12", commit=CANARY.id,
                     message="held"),
    ),
    rollouts=(HELD,),
    steps=((WEB, (STEP, replace(STEP, commit=CANARY, change="app v1 → v2, partition 0 → 60%",
                                partition="60%", asked=4, updated=4, state=State.HELD))),),
    drift=(DriftRecord(key=ObjectKey("", "ConfigMap", "shop", "cfg"), field="data.mode", git="fast",
                       live="slow"),),
    findings=(Finding(code="GK1203", message="unknown field",
                      places=(SourcePlace(file="a.yaml", line=3, column=7),),
                      notes=(("next", "take it out"),)),),
    superseded=((FIRST, CANARY.id),),
)  # fmt: skip


def test_files_and_message(golden: Callable[[str, str], None]) -> None:
    files = record_files(RECORD) | shared_files([RECORD])
    parts = [f"=== {path}\n{data.decode()}" for path, data in sorted(files.items())]
    trailers = "\n".join(f"{name}: {value}" for name, value in commit_trailers([RECORD]))
    message = f"{commit_subject([RECORD])}\n\n{commit_body([RECORD])}\n\n{trailers}\n"
    note = f"{note_text(RECORD, '0.1')}\n"
    golden(
        "gitops/status-branch.txt", "".join([*parts, "=== message\n", message, "=== note\n", note])
    )


def test_a_subject_counts_the_other_units() -> None:
    others = [replace(RECORD, unit=f"shop/{name}") for name in "ab"]
    assert commit_subject([RECORD, *others]).endswith(" (+2 units) [skip ci]")
    assert commit_subject([RECORD, *others[:1]]).endswith(" (+1 unit) [skip ci]")


def test_what_was_written_is_read_back() -> None:
    record, steps, had = restored(record_files(RECORD), "shop/web", "prod-eu")
    assert record
    assert (record.state, record.since, record.applied) == (State.HELD, AT, CANARY)
    assert steps == dict(RECORD.steps)
    assert had == {one.key for one in RECORD.objects if one.commit}
    assert had


def test_rollouts_of_one_kind_and_name_have_a_file_each() -> None:
    """Namespaces, or the two StatefulSets: the second took the place of the first."""
    keys = [
        ObjectKey("apps", "StatefulSet", "shop", "web"),
        ObjectKey("apps.kruise.io", "StatefulSet", "shop", "web"),
        ObjectKey("apps", "StatefulSet", "bank", "web"),
    ]
    rollouts = (HELD, *(replace(HELD, key=key) for key in keys))
    record = replace(RECORD, rollouts=rollouts, steps=tuple((r.key, (STEP,)) for r in rollouts))
    files = record_files(record)
    assert sorted(path for path in files if "/rollouts/" in path) == [
        "units/shop/web/rollouts/CloneSet.web.yaml",
        "units/shop/web/rollouts/bank/apps/StatefulSet.web.yaml",
        "units/shop/web/rollouts/shop/apps.kruise.io/StatefulSet.web.yaml",
        "units/shop/web/rollouts/shop/apps/StatefulSet.web.yaml",
    ]
    assert restored(files, "shop/web", "prod-eu")[1] == dict(record.steps)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\xff\x00",
        b"a: [",
        b"[]",
        b"state: Nope\nsince: x\n",
        b"object: a_b_c_d\nsteps: [1]\n",
        b"object: a_b_c_d\nsteps: [{started: ''}]\n",
    ],
)
def test_a_damaged_branch_is_begun_anew(data: bytes) -> None:
    files = dict.fromkeys(record_files(RECORD), data)
    assert restored(files, "shop/web", "prod-eu") == (None, {}, frozenset())


def test_lines_of_units_not_seen_yet_stay_in_the_index() -> None:
    other = replace(RECORD, unit="shop/api")
    both = shared_files([RECORD, other])["index.tsv"]
    assert shared_files([RECORD], both)["index.tsv"] == both


URGENCY: list[tuple[str, UnitRecord, UnitRecord, str]] = [
    ("the same", RECORD, RECORD, ""),
    ("state", RECORD, replace(RECORD, state=State.STUCK), "now"),
    ("a finding", RECORD, replace(RECORD, findings=()), "now"),
    ("a count", RECORD, replace(RECORD, rollouts=(replace(HELD, available=9),)), "counts"),
    ("a sentence", RECORD, replace(RECORD, message="else"), "counts"),
    (
        "rolling to waiting",
        replace(RECORD, state=State.ROLLING),
        replace(RECORD, state=State.WAITING),
        "counts",
    ),
    (
        "a new commit",
        replace(RECORD, state=State.ROLLING),
        replace(RECORD, state=State.ROLLING, causal=FIRST),
        "now",
    ),
]


@pytest.mark.parametrize(
    ("before", "after", "urgency"), [row[1:] for row in URGENCY], ids=[row[0] for row in URGENCY]
)
def test_news(before: UnitRecord, after: UnitRecord, urgency: str) -> None:
    assert news(before, after) == urgency
    assert news(None, after) == "now"


PLANTED = "hunter2-correct-horse"


@pytest.mark.slow
@pytest.mark.parametrize(
    "broken", ["", "type: [x]\n", "data: {j: 'not/base64=%s'}\n", "dta: {}\n", "immutable: 'no'\n"]
)
def test_a_planted_secret_reaches_no_sink(
    staged: MakeStage, caplog: pytest.LogCaptureFixture, broken: str
) -> None:
    stage = staged(drift={"mode": "detect"})
    caplog.set_level(logging.DEBUG)
    secret = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "key"}}
    good = {**secret, "stringData": {"k": PLANTED}}
    coded = base64.b64encode(PLANTED.encode()).decode()

    async def script() -> None:
        async with stage.running():
            await stage.push(good, config_map("settings", a="b"))
            await stage.rest()
            stage.meddle(
                {**secret, "data": {"k": base64.b64encode(b"other-" + PLANTED.encode()).decode()}}
            )
            await stage.rest()
            assert stage.state == "Drifted"
            bad = broken.replace("%s", coded)
            await stage.push(app=documents(good) + bad.replace("stringData", "data"))
            await stage.rest()
            assert stage.state == ("Rejected" if broken else "Drifted")

    stage.play(script)
    texts = [str(r) for r in stage.offered] + [caplog.text] + stage.diary()
    texts += [data.decode() for data in stage.branch.files().values()]
    for word in (PLANTED, coded, PLANTED[:12], coded[:16]):
        assert not any(word in text for text in texts)


def test_a_record_that_is_continued_names_the_ref_and_path_that_are_followed_now() -> None:
    """Another branch or path in the configuration is no news of the unit."""
    spec = UnitSpec(source_ref=Reference(name="src"), path="deploy")
    clock = ManualClock(RECORD.since)
    reporter = Reporter(Unit("shop", "web", spec), "prod-eu", "release", clock, sinks=[])
    reporter.resume(replace(RECORD, source="main", path="apps"), {})
    assert (reporter.record.source, reporter.record.path) == ("release", "deploy")
    assert reporter.record.causal == RECORD.causal


def test_a_record_that_no_live_object_confirms_still_names_the_problem_of_the_source() -> None:
    spec = UnitSpec(source_ref=Reference(name="src"), path="deploy")
    reporter = Reporter(
        Unit("shop", "web", spec), "prod-eu", "main", ManualClock(RECORD.since), sinks=[]
    )
    reporter.resume(RECORD, {})
    reporter.source_problem(Finding(code="GK3102", message="git refuses our credentials"))
    assert RECORD.causal is not None
    reporter.disclaim([RECORD.causal.id])
    outcome = (reporter.record.state, reporter.record.message)
    assert outcome == (State.UNKNOWN, "GK3102: git refuses our credentials")
