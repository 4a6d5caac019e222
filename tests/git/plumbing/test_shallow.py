"""A mirror begins with the latest commits, and brings earlier ones when an answer needs them."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.ancestry import FIRST
from gitkruise.git.repository.repository import Repository
from tests.git.repos import ENV, Origin, run_git, serve

pytestmark = pytest.mark.slow

COUNT: Final = 3 * FIRST


def write_history(origin: Origin) -> list[str]:
    """Many commits to one file after one to another; their ids, the oldest first."""
    lines = []
    for n in range(COUNT):
        lines += ["commit refs/heads/main", f"committer D <d@example.com> {1_000 + n} +0000"]
        lines += ["data 1", "x", f"M 644 inline {'new' if n else 'old'}/a.yaml", "data <<E"]
        lines += [f"n: {n}", "E"]
    text = "\n".join(lines) + "\n"
    words = ["git", "fast-import", "--quiet"]
    subprocess.run(words, cwd=origin.bare, env=ENV, input=text.encode(), check=True)
    run_git(origin.work, "pull", "--quiet", "origin", "main")
    return run_git(origin.bare, "rev-list", "--reverse", "main").split()


@pytest.fixture(params=[True, False], ids=["filtering server", "plain server"])
def served(request: pytest.FixtureRequest, origin: Origin, tmp_path: Path) -> Iterator[str]:
    run_git(origin.bare, "config", "uploadpack.allowFilter", "true" if request.param else "false")
    with serve(tmp_path) as base:
        yield f"{base}/origin.git"


@pytest.fixture
def far(served: str, tmp_path: Path) -> Iterator[Repository]:
    with Repository.open(served, mirrors=tmp_path / "m", protocols={"http"}) as opened:
        yield opened


def here(far: Repository, commits: list[str]) -> int:
    return sum(far.here(commit) for commit in commits)


def test_only_the_latest_commits_come_at_first(far: Repository, origin: Origin) -> None:
    commits = write_history(origin)
    tip = far.fetch("main")
    assert (tip, here(far, commits)) == (commits[-1], FIRST)
    for n in range(2):
        commits.append(origin.commit({"new/a.yaml": f"n: again {n}"}))
        assert far.fetch("main") == commits[-1]
        assert far.is_ancestor(tip, commits[-1])
        newest = [c.id for c in far.commits_between("", commits[-1], paths=["new"], limit=1)]
        assert newest == commits[-1:]
        assert [c.id for c in far.commits_between(tip, commits[-1])] == commits[: -n - 2 : -1]
    assert here(far, commits) == FIRST + 2


def test_what_changed_a_folder_long_ago_is_found(far: Repository, origin: Origin) -> None:
    commits = write_history(origin)
    tip = far.fetch("main")
    assert [c.id for c in far.commits_between("", tip, paths=["old"], limit=1)] == commits[:1]
    assert here(far, commits) == COUNT


def test_an_old_commit_is_in_the_history_and_a_dropped_one_is_not(
    far: Repository, origin: Origin
) -> None:
    commits = write_history(origin)
    dropped = far.fetch("main")
    assert far.is_ancestor(commits[0], dropped)
    run_git(origin.work, "reset", "--hard", "--quiet", commits[5])
    run_git(origin.work, "push", "--quiet", "--force", "origin", "HEAD:main")
    tip = origin.commit({"new/a.yaml": "n: other"})
    assert far.fetch("main") == tip
    assert not far.is_ancestor(dropped, tip)
    assert far.is_ancestor(commits[5], tip)
    assert far.merge_base(dropped, tip) == commits[5]


def test_a_new_mirror_knows_what_an_earlier_one_stood_on(far: Repository, origin: Origin) -> None:
    commits = write_history(origin)
    tip = far.fetch("main")
    assert not far.here(commits[3])
    assert far.is_ancestor(commits[3], tip)
    assert far.has(commits[0])
    assert not far.has("1" * 40)


def test_the_parent_of_the_last_commit_that_is_here(far: Repository, origin: Origin) -> None:
    commits = write_history(origin)
    far.fetch("main")
    (parent,) = far.commit(commits[-FIRST]).parents
    assert far.commit(parent).id == commits[-FIRST - 1]
    assert far.changed_paths(commits[0], commits[1]) == ["new/a.yaml"]


def test_another_branch_comes_with_its_latest_commits(far: Repository, origin: Origin) -> None:
    commits = write_history(origin)
    side = origin.commit({"side/a.yaml": "n: 1"}, branch="side")
    assert far.fetch("main") == commits[-1]
    assert far.fetch("side") == side
    assert here(far, commits) == FIRST
    assert [c.id for c in far.commits_between(commits[-1], side)] == [side]


def test_a_server_that_is_shallow_itself_leaves_questions_open(tmp_path: Path) -> None:
    """B-G09: nothing is taken for rewritten or new because a server cannot tell."""
    (tmp_path / "first").mkdir()
    whole = Origin(tmp_path / "first/origin.git", tmp_path / "work")
    run_git(tmp_path, "init", "-q", "--bare", "--initial-branch=main", "first/origin.git")
    run_git(tmp_path, "init", "-q", "--initial-branch=main", "work")
    run_git(whole.work, "remote", "add", "origin", str(whole.bare))
    first = whole.commit({"a.yaml": "n: 1"})
    tip = whole.commit({"b.yaml": "n: 1"})
    run_git(tmp_path, "clone", "-q", "--bare", "--depth=1", f"file://{whole.bare}", "short.git")
    with (
        serve(tmp_path) as base,
        Repository.open(f"{base}/short.git", mirrors=tmp_path / "m", protocols={"http"}) as far,
    ):
        assert far.fetch("main") == tip
        assert far.find(tip, "b.yaml") is not None
        for ask in (far.is_ancestor, far.commits_between):
            with pytest.raises(SourceFailed) as caught:
                ask(first, tip)
            assert caught.value.findings[0].code == "GK3108"


def test_a_shallow_clone_of_this_machine_does_not_mislead(origin: Origin, tmp_path: Path) -> None:
    commits = write_history(origin)
    run_git(tmp_path, "clone", "-q", "--bare", "--depth=5", f"file://{origin.bare}", "short.git")
    with Repository.open(str(tmp_path / "short.git")) as short:
        assert short.is_ancestor(commits[-4], commits[-1])
        assert len(short.commits_between("", commits[-1])) == 5  # where it begins
        with pytest.raises(SourceFailed) as caught:
            short.is_ancestor(commits[0], commits[-1])
    assert caught.value.findings[0].code == "GK3108"


def test_a_commit_that_a_shallow_clone_leaves_out_is_reported_as_left_out(
    origin: Origin, tmp_path: Path
) -> None:
    commits = write_history(origin)
    run_git(tmp_path, "clone", "-q", "--bare", "--depth=5", f"file://{origin.bare}", "short.git")
    with Repository.open(str(tmp_path / "short.git")) as short:
        for ask in (lambda: short.commit(commits[0]), lambda: short.named("HEAD~9")):
            with pytest.raises(SourceFailed) as caught:
                ask()
            assert dict(caught.value.findings[0].notes)["next"].endswith("git fetch --unshallow")
