"""A branch that is checked out moves together with its working tree, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.errors import RefMoved
from gitkruise.git.push.worktree import move_branch
from gitkruise.git.repository.repository import Repository
from tests.git.repos import run_git

MAIN = "refs/heads/main"
FILE = "web.yaml"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run_git(tmp_path, "init", "--quiet", "-b", "main")
    (tmp_path / FILE).write_text("a: 1\n")
    run_git(tmp_path, "add", "--all")
    run_git(tmp_path, "commit", "--quiet", "-m", "one")
    return tmp_path


def next_commit(folder: Path) -> tuple[str, str]:
    """The commit of main, and one on top of it that no ref names; nothing of the checkout moves."""
    old = run_git(folder, "rev-parse", MAIN)
    (folder / FILE).write_text("a: 2\n")
    stashed = run_git(folder, "stash", "create")
    new = run_git(folder, "commit-tree", "-p", old, "-m", "two", f"{stashed}^{{tree}}")
    run_git(folder, "checkout", "--quiet", "--", FILE)
    return old, new


def move(folder: Path, old: str, new: str) -> None:
    with Repository.open(str(folder)) as repository:
        move_branch(repository, MAIN, new, old=old)


def test_the_working_tree_moves_with_its_branch(folder: Path) -> None:
    old, new = next_commit(folder)
    (folder / "notes.txt").write_text("git does not know it\n")
    move(folder, old, new)
    assert run_git(folder, "rev-parse", MAIN) == new
    assert run_git(folder, "status", "--porcelain", "-uno") == ""
    assert (folder / FILE).read_text() == "a: 2\n"


def test_changes_that_are_in_no_commit_keep_the_branch_where_it_is(folder: Path) -> None:
    old, new = next_commit(folder)
    (folder / FILE).write_text("a: mine\n")
    with pytest.raises(SourceFailed) as caught:
        move(folder, old, new)
    (finding,) = caught.value.findings
    assert finding.code == "GK3203"
    assert str(folder) in dict(finding.notes)["next"]
    assert run_git(folder, "rev-parse", MAIN) == old
    assert (folder / FILE).read_text() == "a: mine\n"


def test_a_branch_that_is_not_checked_out_moves_alone(folder: Path) -> None:
    old, new = next_commit(folder)
    run_git(folder, "checkout", "--quiet", "-b", "other")
    (folder / FILE).write_text("a: mine\n")
    move(folder, old, new)
    assert run_git(folder, "rev-parse", MAIN) == new
    assert (folder / FILE).read_text() == "a: mine\n"


def test_a_bare_repository_has_no_working_tree(folder: Path, tmp_path: Path) -> None:
    old, new = next_commit(folder)
    run_git(folder, "update-ref", "refs/heads/kept", new)
    bare = tmp_path / "origin.git"
    run_git(folder, "clone", "--quiet", "--bare", ".", str(bare))
    move(bare, old, new)
    assert run_git(bare, "rev-parse", MAIN) == new


def test_the_working_tree_stays_where_another_push_was_faster(folder: Path) -> None:
    old, new = next_commit(folder)
    with pytest.raises(RefMoved):
        move(folder, new, old)
    assert run_git(folder, "rev-parse", MAIN) == old
    assert run_git(folder, "status", "--porcelain", "-uno") == ""
