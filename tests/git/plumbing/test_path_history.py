"""One pass over the history answers for every folder what git answers for each."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Sequence
from contextlib import closing
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from gitkruise.errors import HistoryMissing
from gitkruise.git.plumbing.ancestry import Lineage
from gitkruise.git.plumbing.commits import parents_of
from gitkruise.git.plumbing.object_db import ObjectReader
from gitkruise.git.plumbing.process import Result, git_command, launch
from gitkruise.git.plumbing.trees import clean_path
from gitkruise.git.repository.path_history import PathHistory
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, make_origin, run_git

FOLDERS: Final = ("a", "a/deep", "b", "c", "gone", "never", "with space", "näme")


def _history(origin: Origin) -> list[str]:
    """Straight and merged, with a merge that changes something itself and one that drops a side."""
    made = [origin.commit({"a/x": "1", "a/deep/x": "1", "b/x": "1", "gone/x": "1"}, "first")]
    made.append(origin.commit({"a/deep/x": "2", "with space/x": "1", "näme/x": "1"}))
    made.append(origin.commit({"gone/x": None}))
    run_git(origin.work, "checkout", "-q", "-b", "side", made[0])
    run_git(origin.work, "rm", "-q", "b/x")
    run_git(origin.work, "commit", "-q", "-m", "side")
    made.append(run_git(origin.work, "rev-parse", "HEAD"))
    run_git(origin.work, "checkout", "-q", "-b", "lost", made[1])
    (origin.work / "c").mkdir()
    (origin.work / "c/x").write_text("lost")
    run_git(origin.work, "add", "c")
    run_git(origin.work, "commit", "-q", "-m", "lost")
    run_git(origin.work, "checkout", "-q", "-B", "main", made[2])
    run_git(origin.work, "merge", "-q", "--no-ff", "-m", "merged", "side")
    made.append(run_git(origin.work, "rev-parse", "HEAD"))
    run_git(origin.work, "merge", "-q", "-s", "ours", "-m", "dropped", "lost")
    made.append(run_git(origin.work, "rev-parse", "HEAD"))
    made.append(origin.commit({}, "nothing"))
    made.append(origin.commit({"a/x": "2", "new\nline/x": "1"}))
    return made


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    with Repository.open(str(make_origin(tmp_path).bare)) as opened:
        yield opened


@pytest.mark.slow
def test_every_folder_and_range_as_git_says(repository: Repository, tmp_path: Path) -> None:
    made = _history(Origin(tmp_path / "origin.git", tmp_path / "work"))
    history = PathHistory(repository)
    for old, new in product(["", *made], made):
        if old == new or (old and not repository.is_ancestor(old, new)):
            continue
        limit = 100 if old else 1
        wanted = {
            folder: repository.commits_between(old, new, paths=[folder], limit=limit)
            for folder in FOLDERS
        }
        for _ in range(2):  # asked one by one, and from the pass
            found = {folder: history.touching(old, new, [folder]) for folder in FOLDERS}
            assert found == wanted, (old, new)
        assert history.touching(old, new, [""]) == repository.commits_between(old, new, limit=limit)
        both = [clean_path("a"), "b/x"]
        assert history.touching(old, new, both) == repository.commits_between(
            old, new, paths=both, limit=limit
        )


def test_a_repository_that_was_made_again_lacks_the_earlier_commit(
    repository: Repository, tmp_path: Path
) -> None:
    new = Origin(tmp_path / "origin.git", tmp_path / "work").commit({"a/x": "1"}, "again")
    history = PathHistory(repository)
    for _ in range(6):  # asked one by one, and from the pass
        assert [c.id for c in history.touching("0" * 39 + "1", new, ["a"])] == [new]
    with pytest.raises(HistoryMissing):
        history.touching(new, "0" * 39 + "1", ["a"])


def test_a_pass_names_the_files_of_each_commit(repository: Repository, tmp_path: Path) -> None:
    made = _history(Origin(tmp_path / "origin.git", tmp_path / "work"))
    files = dict(repository.files_touched("", made[-1], limit=100))
    assert files[made[0]] == ["a/deep/x", "a/x", "b/x", "gone/x"]
    assert files[made[1]] == ["a/deep/x", "näme/x", "with space/x"]
    assert files[made[4]] == []  # a merge that only joins
    assert files[made[-1]] == ["a/x", "new\nline/x"]
    assert len(repository.files_touched("", made[-1], limit=3)) == 3


def test_a_straight_push_is_read_without_a_git_of_its_own(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    made = [origin.commit({f"{folder}/x": str(n)}) for n, folder in enumerate("abacaa")]

    def fails(words: Sequence[str]) -> Result:
        raise AssertionError(words)

    def cat_file() -> subprocess.Popen[bytes]:
        return launch(git_command(origin.bare, ["cat-file", "--batch-command"]))

    with closing(ObjectReader(cat_file)) as reader:
        lineage = Lineage(origin.bare, fails, reader, None)
        between = lineage.commits_between(made[0], made[-1], paths=["a"])
        assert [c.id for c in between] == [made[5], made[4], made[2]]
        assert [c.id for c in lineage.commits_between(made[3], made[-1])] == [made[5], made[4]]
        assert lineage.is_ancestor(made[0], made[-1])
        assert lineage.is_ancestor(made[0], made[0])
        assert not lineage.is_ancestor(made[-1], made[0])
        for unknown in ((made[0], "0" * 40), ("0" * 40, made[0])):
            with pytest.raises(AssertionError):  # git knows what a missing commit means
                lineage.is_ancestor(*unknown)


def test_a_far_commit_is_looked_for_by_git(tmp_path: Path) -> None:
    origin = make_origin(tmp_path)
    commits = [b"commit refs/heads/main\ncommitter a <a> %d +0000\ndata 0\n" % n for n in range(40)]
    run_git(origin.bare, "fast-import", "--quiet", data=b"".join(commits))
    last, *_, first = run_git(origin.bare, "rev-list", "main").split()
    with Repository.open(str(origin.bare)) as repository:
        assert repository.is_ancestor(first, last)
        assert not repository.is_ancestor(last, first)


PARENTS: Final = [
    (b"tree t\nauthor a\n", []),
    (b"tree t\nparent 1\nauthor a\n\nparent 2\n", ["1"]),
    (b"tree t\nparent 1\nparent 2\nauthor a\nparent 3\n", ["1", "2"]),
    (b"tree t\nauthor a\nparent 1\n", []),
]


@pytest.mark.parametrize(("data", "wanted"), PARENTS)
def test_parents_are_the_lines_that_git_takes_for_them(data: bytes, wanted: list[str]) -> None:
    assert parents_of(data) == wanted
