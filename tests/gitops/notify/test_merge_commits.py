"""The commit of a branch by which another one came: itself, or the merge that brought it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.notify import merge_commits as module
from gitkruise.gitops.notify.merge_commits import MergeCommits
from tests.git.repos import Origin, make_origin, run_git

pytestmark = pytest.mark.slow


@pytest.fixture
def origin(tmp_path: Path) -> Origin:
    return make_origin(tmp_path)


@pytest.fixture
def merges(origin: Origin) -> Iterator[MergeCommits]:
    with closing(Repository.open(str(origin.bare))) as repository:
        yield MergeCommits(repository)


def merge(origin: Origin, *commits: str) -> str:
    run_git(origin.work, "merge", "--quiet", "--no-ff", "-m", "merge", *commits)
    run_git(origin.work, "push", "--quiet", "origin", "HEAD:refs/heads/main")
    return run_git(origin.work, "rev-parse", "HEAD")


def branched(origin: Origin, count: int, base: str = "main") -> list[str]:
    """Commits of a branch that starts at `base`, oldest first."""
    run_git(origin.work, "checkout", "--quiet", "--detach", base)
    made = [origin.commit({f"{base}{n}": "x"}, f"{n}", branch=f"b{base[:7]}") for n in range(count)]
    run_git(origin.work, "checkout", "--quiet", "main")
    return made


def test_commits_of_the_branch_are_where_they_are(origin: Origin, merges: MergeCommits) -> None:
    commits = [origin.commit({"a": str(n)}, f"{n}") for n in range(4)]
    assert [merges.merge_of(c, commits[-1]) for c in commits] == commits


def test_a_merged_branch_landed_with_its_merge(origin: Origin, merges: MergeCommits) -> None:
    origin.commit({"a": "1"})
    branch = branched(origin, 3)
    before = origin.commit({"a": "2"})
    assert merges.merge_of(branch[-1], before) == branch[-1]  # not yet
    merged = merge(origin, branch[-1])
    after = [origin.commit({"a": str(n)}) for n in range(3, 9)]
    assert [merges.merge_of(c, after[-1]) for c in branch] == [merged] * 3
    assert merges.merge_of(merged, after[-1]) == merged
    assert merges.merge_of(before, after[-1]) == before


def test_a_branch_merged_into_a_branch_landed_when_that_did(
    origin: Origin, merges: MergeCommits
) -> None:
    origin.commit({"a": "1"})
    outer = branched(origin, 1)
    inner = branched(origin, 1, outer[0])
    run_git(origin.work, "checkout", "--quiet", "--detach", outer[0])
    run_git(origin.work, "merge", "--quiet", "--no-ff", "-m", "inner", inner[0])
    head = run_git(origin.work, "rev-parse", "HEAD")
    run_git(origin.work, "checkout", "--quiet", "main")
    origin.commit({"a": "2"})
    merged = merge(origin, head)
    tip = origin.commit({"a": "3"})
    assert [merges.merge_of(c, tip) for c in (outer[0], inner[0], head)] == [merged] * 3


def test_what_the_branch_lacks_or_had_long_ago_is_left_as_it_is(
    origin: Origin, merges: MergeCommits, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BACK_MAX", 3)
    first = origin.commit({"a": "0"})
    never = branched(origin, 1)
    long_ago = [origin.commit({"a": str(n)}) for n in range(1, 7)]
    assert merges.merge_of(never[0], long_ago[-1]) == never[0]
    assert merges.merge_of(first, long_ago[-1]) == first
    assert merges.merge_of(long_ago[0], long_ago[-1]) == long_ago[0]
