"""Merges of commits in a mirror, which lacks the files that no unit reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.git.repository.merge import Unmergeable, merged
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, run_git, serve

LINES = [f"line {n}\n" for n in range(40)]


def text(**changed: str) -> str:
    """Forty lines, some of which are others: `l7="x"`."""
    return "".join(f"{changed.get(f'l{n}', line.strip())}\n" for n, line in enumerate(LINES))


@pytest.fixture
def far(origin: Origin, tmp_path: Path) -> Iterator[Repository]:
    run_git(origin.bare, "config", "uploadpack.allowFilter", "true")
    run_git(origin.bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    with (
        serve(tmp_path) as base,
        Repository.open(f"{base}/origin.git", mirrors=tmp_path / "m", protocols={"http"}) as opened,
    ):
        yield opened


def pull(origin: Origin, start: str, **files: str) -> str:
    """Push a branch with a commit on top of `start`, `__` for a slash in names; its head."""
    run_git(origin.work, "checkout", "--quiet", "--detach", start)
    named = {name.replace("__", "/"): body for name, body in files.items()}
    head = origin.commit(named, branch="pull")
    run_git(origin.work, "checkout", "--quiet", "main")
    return head


@pytest.mark.slow
def test_files_that_both_changed_are_brought(origin: Origin, far: Repository) -> None:
    start = origin.commit({"a": text(), "b": text()})
    head = pull(origin, start, a=text(l30="theirs"))
    tip = origin.commit({"a": text(l3="ours"), "b": text(l9="ours")})
    far.fetch("main")
    far.fetch("pull")
    both = merged(far, tip, head)
    entry = far.find(both, "a")
    assert entry is not None
    assert far.read_blob(entry.id).decode() == text(l3="ours", l30="theirs")
    assert far.tree_id(both, "b") == far.tree_id(tip, "b")
    assert merged(far, tip, head) == both


def test_a_change_follows_a_file_that_was_renamed(origin: Origin, far: Repository) -> None:
    start = origin.commit({"old": text(), "other": "x\n"})
    head = pull(origin, start, old=text(l30="theirs"))
    run_git(origin.work, "mv", "old", "new")
    tip = origin.commit({"new": text(l3="ours")})
    far.fetch("main")
    far.fetch("pull")
    entry = far.find(merged(far, tip, head), "new")
    assert entry is not None
    assert far.read_blob(entry.id).decode() == text(l3="ours", l30="theirs")


@pytest.mark.slow
def test_a_conflict_names_its_files(origin: Origin, far: Repository) -> None:
    start = origin.commit({"a": text()})
    head = pull(origin, start, a=text(l3="theirs"))
    tip = origin.commit({"a": text(l3="ours")})
    far.fetch("main")
    far.fetch("pull")
    with pytest.raises(Unmergeable) as caught:
        merged(far, tip, head)
    (finding,) = caught.value.findings
    assert (finding.code, dict(finding.notes)["why"]) == (
        "GK3212", "both changed the same lines of a",
    )  # fmt: skip
