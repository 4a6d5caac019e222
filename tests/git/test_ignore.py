"""Ignore files anywhere above and below a unit, and the source's own lines, as git reads them."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitkruise.git.ignore import Ignored
from gitkruise.git.manifests import read_desired
from gitkruise.git.repo import Repository
from tests.git.repos import ENV, Origin, make_origin
from tests.laws.examples import one_in


def config_map(path: str) -> str:
    return f"apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {path.replace('/', '.')}}}\n"


PATHS = (
    "apps/a.yaml", "apps/d/d.yaml", "apps/web/a.yaml", "apps/web/b.yaml", "apps/web/sub/a.yaml",
    "docs/a.yaml",
)  # fmt: skip
ROWS: list[tuple[str, Mapping[str, str], str, str, str]] = [
    # row, ignore files, the source's own lines, the unit's path, what is read
    ("nothing", {}, "", "apps/web", "a b sub/a"),
    ("at the root", {"": "b.yaml\n"}, "", "apps/web", "a sub/a"),
    ("at the root, from there", {"": "/apps/web/sub/\n"}, "", "apps/web", "a b"),
    ("above", {"apps": "/web/b.yaml\n"}, "", "apps/web", "a sub/a"),
    ("in the unit", {"apps/web": "/a.yaml\n"}, "", "apps/web", "b sub/a"),
    ("below", {"apps/web/sub": "*\n"}, "", "apps/web", "a b"),
    ("a deeper file wins", {"": "*.yaml\n", "apps/web": "!b.yaml\n"}, "", "apps/web", "b"),
    ("own lines", {}, "b.yaml", "apps/web", "a sub/a"),
    ("own lines win", {"apps/web": "b.yaml\n"}, "!b.yaml", "apps/web", "a b sub/a"),
    ("only these", {}, "/*\n!/apps", "", "apps/a apps/d/d apps/web/a apps/web/b apps/web/sub/a"),
    ("all but one", {"": "/*\n!/docs\n"}, "", "", "docs/a"),
]  # fmt: skip


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_what_is_left_out(
    origin: Origin, repository: Repository, row: tuple[str, Mapping[str, str], str, str, str]
) -> None:
    _, files, own, path, expected = row
    rules = {f"{folder}/.gitkruiseignore".lstrip("/"): text for folder, text in files.items()}
    commit = origin.commit({**{name: config_map(name) for name in PATHS}, **rules})
    found = read_desired(repository, commit, path, ignore=own.splitlines()).checked()
    start = f"{path}/" if path else ""
    read = [d.file.removeprefix(start).removesuffix(".yaml") for d in found.documents]
    assert " ".join(read) == expected


def test_a_rule_from_outside_is_part_of_the_content(origin: Origin, repository: Repository) -> None:
    first = origin.commit({name: config_map(name) for name in PATHS})
    second = origin.commit({".sourceignore": "b.yaml\n"})
    third = origin.commit({"docs/b.yaml": config_map("b")})
    one, two, three = (read_desired(repository, c, "apps/web") for c in (first, second, third))
    assert one.tree != two.tree == three.tree
    assert two.inputs == ("apps/web", ".sourceignore")
    assert read_desired(repository, first, "apps/web", ignore=["x"]).tree != one.tree
    touching = repository.commits_between(first, third, paths=two.inputs)
    assert [commit.id for commit in touching] == [second]


LINES = st.sampled_from(
    [
        "*",
        "*.yaml",
        "/a",
        "a/",
        "!a",
        "!*.yaml",
        "/a/b",
        "b",
        "**/c.yaml",
        "a/**",
        "!/a/b/",
        "#x",
        "",
    ]
)
FILES = ("a/b/c.yaml", "a/c.yaml", "b/a/c.yaml", "c.yaml", "b.yaml", "a/b.yaml")


@given(
    root=st.lists(LINES, max_size=4),
    inner=st.lists(LINES, max_size=3),
    deep=st.lists(LINES, max_size=2),
)
@settings(max_examples=one_in(4), suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_git_itself_leaves_out_the_same(
    tmp_path_factory: pytest.TempPathFactory, root: list[str], inner: list[str], deep: list[str]
) -> None:
    origin = make_origin(tmp_path_factory.mktemp("law"))
    rules = {"": root, "a": inner, "a/b": deep}
    named = {f"{folder}/.sourceignore".lstrip("/"): "\n".join(x) for folder, x in rules.items()}
    commit = origin.commit({**dict.fromkeys(FILES, ""), **named})
    with Repository.open(str(origin.bare)) as repository:
        ignored = Ignored(repository, commit, "", [])
        listed = repository.list_tree(commit, enter=lambda folder: folder + "/" not in ignored)
        ours = {e.path for e in listed if e.path in FILES and e.path not in ignored}
    assert ours == set(FILES) - _left_out_by_git(origin.work)


def _left_out_by_git(work: Path) -> set[str]:
    words = ["git", "ls-files", "--cached", "--ignored", "--exclude-per-directory=.sourceignore"]
    done = subprocess.run(words, cwd=work, env=ENV, capture_output=True, check=True, text=True)
    return set(done.stdout.split())
