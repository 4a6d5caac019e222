"""Commits of one repository share nearly all files: a plan reads and checks each of them once."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest

from gitkruise.cli.context.commit_plan import read_sides
from gitkruise.errors import InvalidManifests
from gitkruise.git.plumbing.trees import TreeEntry
from gitkruise.git.repository.repository import Repository
from gitkruise.gitops.actions.target import read_branch
from gitkruise.gitops.build.builder import ReadBefore
from gitkruise.gitops.preview.inputs import read_base, read_side
from gitkruise.model.workloads.feature_gates import Gates
from tests.git.repos import make_origin
from tests.gitops.preview.test_definitions import with_units
from tests.gitops.preview.test_preview import CATALOG
from tests.gitops.stage import config_map, documents

FILES: Final = {f"one/{n}.yaml": documents(config_map(f"c{n}", a="b")) for n in range(5)}
RULES: Final = (CATALOG, Gates())


def test_the_second_commit_of_a_plan_reads_only_what_differs(tmp_path: Path) -> None:
    origin, config, before = make_origin(tmp_path), with_units("one"), ReadBefore()
    old = origin.commit(FILES)
    new = origin.commit({"one/0.yaml": documents(config_map("c0", a="c"))})
    with Repository.open(str(origin.bare)) as repository:
        target = read_side(repository, new, config, *RULES, before=before)
        base = read_base(repository, old, config, config, *RULES, before=before)
    assert before.files.parsed == len(FILES) + 1
    pairs = list(zip(base.objects, target.objects, strict=True))
    assert [a is b for a, b in pairs] == [False, True, True, True, True]
    assert [d.obj["data"]["a"] for d, _ in pairs] == ["b"] * 5


def test_the_search_for_the_last_valid_commit_reads_only_what_differs(tmp_path: Path) -> None:
    origin, config, before = make_origin(tmp_path), with_units("one"), ReadBefore()
    valid = origin.commit(FILES)
    *_, bad = [origin.commit({"one/0.yaml": f"{{broken {n}"}) for n in range(3)]
    with Repository.open(str(origin.bare)) as repository:
        base = read_base(repository, bad, config, config, *RULES, before=before)
    assert [f.message for f in base.warnings] == [
        f"unit shop/one rejects {bad[:7]}: the plan starts from {valid[:7]}, the last valid one"
    ]
    assert len(base.objects) == len(FILES)
    assert before.files.parsed == len(FILES) + 3


def test_a_commit_on_top_of_a_branch_reads_only_what_it_changes(tmp_path: Path) -> None:
    origin, config = make_origin(tmp_path), with_units("one")
    tip = origin.commit(FILES)
    with Repository.open(str(origin.bare)) as repository:
        state = read_branch(repository, "main", tip, config, *RULES)
        new = origin.commit({"one/0.yaml": documents(config_map("c0", a="c"))})
        read_side(repository, new, state.config, *RULES, before=state.before)
    assert state.before.files.parsed == len(FILES) + 1


class CountedRepository(Repository):
    """A repository that keeps which commits are listed."""

    listed: tuple[str, ...] = ()

    def list_tree(
        self, commit: str, path: str = "", *, enter: Callable[[str], bool] = lambda _: True
    ) -> list[TreeEntry]:
        self.listed = (*self.listed, commit)
        return super().list_tree(commit, path, enter=enter)


def test_a_plan_that_no_unit_takes_looks_at_no_earlier_commit(tmp_path: Path) -> None:
    """As in a repository that has no manifests: 100 commits would be read for nothing."""
    origin, config = make_origin(tmp_path), with_units("one")
    *_, old, new = [origin.commit({"one/0.yaml": f"{{broken {n}"}) for n in range(9)]
    with CountedRepository.open(str(origin.bare)) as repository:
        with pytest.raises(InvalidManifests) as refused:
            read_sides(repository, (old, new), config, *RULES, given=config)
        assert isinstance(repository, CountedRepository)
        assert set(repository.listed) == {new}
    assert "nothing was planned" in str(refused.value.findings[0].notes)
