"""One pass over the history answers for every folder what git answers for each."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Final

import pytest

from gitkruise.git.history import History
from gitkruise.git.repo import Repository
from gitkruise.git.tree import clean_path
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
    history = History(repository)
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


def test_a_pass_names_the_files_of_each_commit(repository: Repository, tmp_path: Path) -> None:
    made = _history(Origin(tmp_path / "origin.git", tmp_path / "work"))
    told = dict(repository.files_touched("", made[-1], limit=100))
    assert told[made[0]] == ["a/deep/x", "a/x", "b/x", "gone/x"]
    assert told[made[1]] == ["a/deep/x", "näme/x", "with space/x"]
    assert told[made[4]] == []  # a merge that only joins
    assert told[made[-1]] == ["a/x", "new\nline/x"]
    assert len(repository.files_touched("", made[-1], limit=3)) == 3
