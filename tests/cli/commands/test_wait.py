"""Waiting for a commit: what the record must say before it is out, and when it never will be."""

from __future__ import annotations

import re
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gitkruise.errors import Finding, Severity
from gitkruise.model.gitops.document import GitCommit
from gitkruise.model.gitops.record import UnitRecord
from gitkruise.model.gitops.unit_state import State
from tests.cli.calls import Caller, Ended
from tests.cli.shop import REJECTED, Checkout, cloneset, unit_record
from tests.e2e.program import environment, eventually, gitkruise, started
from tests.git.repos import run_git

UNIT = """\
---
apiVersion: gitkruise.io/v1alpha1
kind: Unit
metadata: {name: shop, namespace: shop}
spec: {sourceRef: {name: here}, path: apps, sinkRef: {name: here}}
"""
CONFIG = f"""\
apiVersion: gitkruise.io/v1alpha1
kind: GitSource
metadata: {{name: here, namespace: shop}}
spec: {{url: .}}
---
apiVersion: gitkruise.io/v1alpha1
kind: Sink
metadata: {{name: here, namespace: shop}}
spec: {{git: {{sourceRef: {{name: here}}}}}}
{UNIT}"""


def sinkless(config: str) -> str:
    return config.replace(", sinkRef: {name: here}", "")


class RecordedCommits:
    """Three commits: a release, a canary, and one that touches no manifest of the unit."""

    def __init__(self, checkout: Checkout) -> None:
        self.checkout = checkout
        self.first = checkout.commit("one", {"gitkruise.yaml": CONFIG, "apps/c.yaml": cloneset()})
        self.canary = checkout.commit("two", {"apps/c.yaml": cloneset("v2", partition="60%")})
        self.other = checkout.commit("three", {"README.md": "hello\n"})
        self.fix = checkout.commit("four", {"apps/c.yaml": cloneset()})  # as `first`
        run_git(checkout.folder, "reset", "-q", "--hard", self.other)

    def record(
        self, applied: str, state: State, attempted: str = "", *, sent: str = "", waits: str = "",
        findings: tuple[Finding, ...] = (),
    ) -> None:  # fmt: skip
        at = GitCommit(id=applied, subject="x")
        found = (REJECTED,) if state is State.REJECTED else findings
        whole = unit_record(state=state, findings=found)
        record: UnitRecord = replace(
            whole,
            path="apps",
            applied=at if applied else None,
            sent=GitCommit(id=sent, subject="z") if sent else None,
            waits=waits,
            objects=whole.objects[:1],
            attempted=GitCommit(id=attempted, subject="y") if attempted else at,
            message="4 of 10",
        )
        self.checkout.record("sandbox", record)


@pytest.fixture(scope="module")
def commits(tmp_path_factory: pytest.TempPathFactory) -> RecordedCommits:
    """One for all: each test writes its own record."""
    return RecordedCommits(Checkout(tmp_path_factory.mktemp("shop")))


def wait(gk: Caller, commits: RecordedCommits, commit: str, *words: str) -> Ended:
    line = ["wait", "--commit", commit, "--timeout", "1ms", *words]
    return gk(*line, cwd=commits.checkout.folder)


# goal, progress of the unit, its state, result
ENDS = [
    ("canary", "applied", "canary", State.ROLLING, 0), ("canary", "held", "canary", State.HELD, 0),
    ("canary", "held", "canary", State.DONE, 0), ("canary", "held", "canary", State.PAUSED, 0),
    ("canary", "done", "canary", State.DONE, 0), ("canary", "done", "canary", State.HELD, 6),
    ("canary", "held", "canary", State.ROLLING, 6), ("canary", "held", "first", State.DONE, 6),
    ("canary", "held", "canary", State.STUCK, 1), ("canary", "applied", "canary", State.STUCK, 0),
    ("first", "held", "canary", State.HELD, 0), ("other", "held", "canary", State.HELD, 0),
    ("other", "held", "first", State.DONE, 6),
]  # fmt: skip


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] if n % 3 else []) for n, row in enumerate(ENDS)],
    ids=[f"{c}-{g}-at-{a}-{s}" for c, g, a, s, _ in ENDS],
)
def test_how_a_wait_ends(
    gk: Caller, commits: RecordedCommits, row: tuple[str, str, str, State, int]
) -> None:
    commit, goal, applied, state, code = row
    commits.record(getattr(commits, applied), state)
    ended = wait(gk, commits, getattr(commits, commit), "--for", goal)
    assert ended.code == code, ended.err
    assert ("GK7019" in ended.err) == (code == 6)


def test_the_next_step_of_a_wait_that_ended_needs_no_cluster_either(
    gk: Caller, commits: RecordedCommits
) -> None:
    commits.record(commits.canary, State.ROLLING)
    ended = wait(gk, commits, commits.canary)
    line = next(part for part in ended.err.splitlines() if "next: " in part)
    words = line.partition("next: gitkruise ")[2].partition(",")[0].split()
    shown = gk(*words, cwd=commits.checkout.folder)
    assert (shown.code, "Rolling" in shown.out) == (0, True), shown.err


def test_a_wait_that_ended_names_the_problems_of_the_unit(
    gk: Caller, commits: RecordedCommits
) -> None:
    """They say why it may not end by itself."""
    silent = Finding(
        code="GK4404", severity=Severity.WARNING, message="no engine drives CloneSet shop/web"
    )
    commits.record(commits.canary, State.ROLLING, findings=(silent,))
    ended = wait(gk, commits, commits.canary)
    assert (ended.code, "problem: shop/shop: GK4404 no engine drives" in ended.err) == (6, True)


def test_a_rejected_commit_never_comes(gk: Caller, commits: RecordedCommits) -> None:
    commits.record(commits.first, State.REJECTED, attempted=commits.canary)
    ended = wait(gk, commits, commits.canary)
    assert (ended.code, "rejected: GK1203" in ended.out) == (1, True)
    assert wait(gk, commits, commits.first, "--for", "applied").code == 0


@pytest.mark.parametrize(
    ("state", "waits", "code"),
    [(State.REJECTED, "", 1), (State.WAITING, "waits for approval", 6)],
)
def test_a_branch_that_went_back_is_not_there_before_it_was_sent(
    gk: Caller, commits: RecordedCommits, state: State, waits: str, code: int
) -> None:
    """What is live contains the commit, and changes it."""
    commits.record(commits.canary, state, attempted=commits.first, waits=waits)
    assert wait(gk, commits, commits.first).code == code


@pytest.mark.parametrize(
    "wrong", ["kind: [", cloneset(replicas=-1)], ids=["not YAML", "a value that no API takes"]
)
def test_a_commit_that_leaves_a_unit_rejected_is_rejected(
    gk: Caller, tmp_path: Path, wrong: str
) -> None:
    """A later commit that changes nothing of the unit repeats its errors: it is not unread."""
    commits = RecordedCommits(Checkout(tmp_path))
    bad = commits.checkout.commit("bad", {"apps/c.yaml": wrong})
    later = commits.checkout.commit("later", {"README.md": "words\n"})
    mended = commits.checkout.commit("mended", {"apps/c.yaml": cloneset("v3")})
    commits.record(commits.first, State.REJECTED, attempted=bad)
    assert wait(gk, commits, later).code == 1
    assert wait(gk, commits, mended).code == 6


def test_a_unit_that_left_the_configuration_has_the_state_of_its_record(
    gk: Caller, tmp_path: Path
) -> None:
    """Later commits change nothing of it: they are read as far as it is concerned."""
    commits = RecordedCommits(Checkout(tmp_path))
    files: dict[str, str | None] = {
        "gitkruise.yaml": CONFIG.partition("---\n")[0],
        "apps/c.yaml": None,
    }
    gone = commits.checkout.commit("no unit", files)
    later = commits.checkout.commit("words", {"README.md": "more words\n"})
    commits.record(commits.canary, State.STUCK, attempted=gone)
    for commit in (gone, later):
        ended = wait(gk, commits, commit)
        assert (ended.code, "not read yet" in ended.err) == (1, False)


def test_a_unit_that_no_controller_follows_yet_is_awaited(gk: Caller, tmp_path: Path) -> None:
    """A running controller does not read a changed gitkruise.yaml again."""
    commits = RecordedCommits(Checkout(tmp_path))
    more = CONFIG + UNIT.replace("shop,", "data,", 1)
    files: dict[str, str | None] = {"gitkruise.yaml": more, "apps/c.yaml": cloneset("v3")}
    added = commits.checkout.commit("another unit", files)
    commits.record(added, State.DONE)
    for words in ([], ["data"], ["shop/data"]):
        ended = wait(gk, commits, added, *words)
        assert (ended.code, "no controller has recorded it yet" in ended.err) == (6, True)
        assert "next: restart gitkruise run if it started before" in ended.err
    assert wait(gk, commits, added, "shop/shop").code == 0
    assert wait(gk, commits, commits.other).code == 0, "a commit that does not configure it"
    assert wait(gk, commits, added, "nope").code == 2
    removed = commits.checkout.commit("one unit again", {"gitkruise.yaml": CONFIG})
    commits.record(removed, State.DONE)
    assert wait(gk, commits, added).code == 0, "a later commit configures it no more"


def test_an_error_of_this_machine_hides_no_change(gk: Caller, tmp_path: Path) -> None:
    """The controller has the chart: it must read new values before they are live."""
    chart = "render: {kind: helm, helm: {repository: 'https://charts.example', chart: web,"
    config = sinkless(CONFIG).replace(
        "path: apps", f"{chart} version: 1.0.0, valuesFiles: [values.yaml]}}}}"
    )
    checkout = Checkout(tmp_path)
    commits = RecordedCommits(checkout)
    one = checkout.commit("chart", {"gitkruise.yaml": config, "values.yaml": "a: 1\n"})
    values = checkout.commit("values", {"values.yaml": "a: 2\n"})
    empty = checkout.commit("empty", {})
    commits.record(one, State.DONE)
    assert wait(gk, commits, values).code == 6
    commits.record(values, State.DONE)
    assert wait(gk, commits, empty).code == 0


# commit, goal, what is applied, what was read, its state, whether it was sent, whether it waits,
# result
NOT_ALL = [
    ("canary", "held", "first", "canary", State.STUCK, True, "", 1),
    ("canary", "applied", "first", "canary", State.STUCK, True, "", 0),
    ("canary", "applied", "first", "canary", State.STUCK, False, "", 1),
    ("canary", "applied", "first", "canary", State.ROLLING, False, "", 6),
    ("canary", "held", "first", "canary", State.PAUSED, True, "", 0),
    ("canary", "done", "first", "canary", State.PAUSED, True, "", 6),
    ("other", "held", "first", "canary", State.STUCK, True, "", 1),
    ("fix", "held", "first", "canary", State.STUCK, True, "", 6),  # it was not read yet
    ("fix", "held", "first", "canary", State.REJECTED, False, "", 6),
    ("fix", "applied", "first", "canary", State.REJECTED, False, "", 6),
    ("fix", "held", "first", "first", State.REJECTED, False, "", 6),  # the source rejects
    ("first", "held", "first", "canary", State.REJECTED, False, "", 0),  # it is live
    ("first", "held", "first", "canary", State.WAITING, False, "approval", 0),
    ("first", "done", "first", "canary", State.WAITING, False, "approval", 6),
    ("canary", "applied", "first", "canary", State.WAITING, False, "approval", 6),
    ("canary", "held", "first", "canary", State.STUCK, False, "approval", 6),
]


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=[pytest.mark.slow] if n % 3 else []) for n, row in enumerate(NOT_ALL)],
    ids=["-".join(map(str, row)) for row in NOT_ALL],
)
def test_commits_that_are_not_all_there(
    gk: Caller, commits: RecordedCommits, row: tuple[Any, ...]
) -> None:
    commit, goal, applied, read, state, sent, waits, code = row
    at = getattr(commits, read)
    commits.record(getattr(commits, applied), state, at, sent=at if sent else "", waits=waits)
    ended = wait(gk, commits, getattr(commits, commit), "--for", goal)
    assert ended.code == code, ended.err + ended.out


def test_json_lists_every_unit(gk: Caller, commits: RecordedCommits) -> None:
    commits.record(commits.canary, State.HELD)
    ended = wait(gk, commits, commits.first[:8], "shop", "-o", "json")
    assert (ended.code, ended.err) == (0, "")
    assert ended.obj["kind"] == "WaitResult"
    assert (ended.obj["commit"], ended.obj["for"], ended.obj["met"]) == (
        commits.first,
        "held",
        True,
    )
    (unit,) = ended.obj["units"]
    assert (unit["unit"], unit["state"], unit["applied"]) == ("shop/shop", "Held", commits.canary)
    assert "overtaken by" in unit["message"]


WRONG = [
    (["--commit", "nope"], 4, "GK3201"), (["nope"], 2, "GK7017"),
    (["--timeout", "5"], 2, "GK7005"), (["--for", "ever"], 2, "ever"),
    (["--cluster", "prod"], 4, "GK3205"),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("words", "code", "text"), WRONG, ids=[" ".join(w[0]) for w in WRONG])
def test_wrong_questions(
    gk: Caller, commits: RecordedCommits, words: list[str], code: int, text: str
) -> None:
    commits.record(commits.canary, State.HELD)
    ended = gk("wait", *words, cwd=commits.checkout.folder)
    assert (ended.code, text in ended.err) == (code, True), ended.err


@pytest.mark.slow
def test_without_any_record_it_waits_and_says_so(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("one", {"c.yaml": cloneset()})
    ended = gk("wait", "--timeout", "1ms", cwd=checkout.folder)
    assert (ended.code, "is gitkruise running?" in ended.err) == (6, True)
    assert "next: start gitkruise run" in ended.err


def test_a_unit_that_nothing_records_cannot_be_awaited(gk: Caller, checkout: Checkout) -> None:
    """Its Sink has no git: the time limit would be the only end."""
    commit = checkout.commit("one", {"gitkruise.yaml": sinkless(CONFIG), "apps/c.yaml": cloneset()})
    for words in ([], ["shop"]):
        ended = gk("wait", *words, cwd=checkout.folder)
        assert ended.code == 2
        assert f"{commit[:7]}: no unit of it can be awaited: shop/shop" in ended.err
        assert "it has no Sink with git" in ended.err


def test_a_unit_that_nothing_records_is_named_beside_others(gk: Caller, tmp_path: Path) -> None:
    commits = RecordedCommits(Checkout(tmp_path))
    more = CONFIG + sinkless(UNIT).replace("shop,", "data,", 1)
    added = commits.checkout.commit("another unit", {"gitkruise.yaml": more})
    commits.record(added, State.DONE)
    ended = wait(gk, commits, added)
    assert ended.code == 0
    assert "unit shop/data is not awaited: it has no Sink with git" in ended.err
    assert wait(gk, commits, added, "data").code == 2


def test_a_name_that_no_unit_has_is_refused(gk: Caller, checkout: Checkout) -> None:
    checkout.commit("one", {"gitkruise.yaml": CONFIG, "apps/c.yaml": cloneset()})
    ended = gk("wait", "HEAD", cwd=checkout.folder)
    assert ended.code == 2
    assert "unit HEAD: neither recorded nor in the configuration" in ended.err
    assert "next: name one of them, or push the configuration that has it" in ended.err
    assert "--commit names a commit" in ended.err


@pytest.mark.slow
def test_a_clone_fetches_the_record(gk: Caller, commits: RecordedCommits) -> None:
    commits.record(commits.canary, State.HELD)
    copy = gk.folder / "copy"
    run_git(gk.folder, "clone", "-q", str(commits.checkout.folder), str(copy))
    run_git(copy, "update-ref", "-d", "refs/remotes/origin/gitkruise/status/sandbox")
    ended = gk("wait", "--timeout", "30s", cwd=copy)
    assert ended.code == 0
    assert re.search(r"^\S+ unit shop/shop Held: 4 of 10$", ended.err, re.MULTILINE)


@pytest.mark.slow
def test_a_newer_commit_that_this_clone_lacks_is_fetched(gk: Caller, tmp_path: Path) -> None:
    """Somebody pushed after us, and the controller read both at once."""
    commits = RecordedCommits(Checkout(tmp_path))
    origin, copy = commits.checkout.folder, gk.folder / "copy"
    run_git(gk.folder, "clone", "-q", str(origin), str(copy))
    newer = commits.checkout.commit("newer", {"apps/c.yaml": cloneset("v5")})
    commits.record(newer, State.DONE)
    ended = gk("wait", "--commit", commits.other, "--timeout", "1ms", cwd=copy)
    assert (ended.code, f"overtaken by {newer[:7]}" in ended.out) == (0, True), ended.err
    assert run_git(copy, "rev-parse", "origin/main") == commits.other


@pytest.mark.slow
def test_a_shallow_clone_says_that_it_cannot_decide(gk: Caller, tmp_path: Path) -> None:
    commits = RecordedCommits(Checkout(tmp_path))
    copy = gk.folder / "copy"
    run_git(gk.folder, "clone", "-q", "--depth=1", f"file://{commits.checkout.folder}", str(copy))
    commits.record(commits.canary, State.DONE)
    ended = gk("wait", "--timeout", "1ms", cwd=copy)
    assert (ended.code, "git fetch --unshallow" in ended.err) == (4, True), ended.err


def test_an_interrupt_ends_it_while_a_remote_hangs(checkout: Checkout, tmp_path: Path) -> None:
    """`kill -INT` of the command alone; Ctrl-C ends git with it."""
    checkout.commit("one", {"gitkruise.yaml": CONFIG, "apps/c.yaml": cloneset()})
    run_git(checkout.folder, "remote", "add", "origin", "ssh://git.invalid/shop.git")
    asked = tmp_path / "asked"
    hanging = tmp_path / "ssh"
    hanging.write_text(f"#!/bin/sh\n: > {asked}\nexec cat\n")
    hanging.chmod(0o755)
    env = environment(tmp_path / "home", GIT_SSH_COMMAND=str(hanging), GIT_SSH_VARIANT="ssh")
    with started(gitkruise("wait"), env, checkout.folder) as program:
        eventually(asked.exists)
        program.signal(signal.SIGINT)
        assert program.ends(20) == 130
