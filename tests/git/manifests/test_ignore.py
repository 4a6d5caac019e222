"""Ignore files anywhere above and below a unit, and the source's own lines, as git reads them."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Mapping
from pathlib import Path

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gitkruise.errors import InvalidManifests
from gitkruise.git.manifests.ignore import FolderFiles, Ignored
from gitkruise.git.manifests.reader import read_desired
from gitkruise.git.repository.repository import Repository
from gitkruise.model.gitops.config import GitSourceSpec
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


def test_a_folder_left_out_takes_everything_in_it_along(
    origin: Origin, repository: Repository
) -> None:
    rules = {".sourceignore": "apps/\n", "apps/web/.sourceignore": "!b.yaml\n"}
    commit = origin.commit({**{name: config_map(name) for name in PATHS}, **rules})
    assert read_desired(repository, commit, "apps/web").documents == ()
    again = read_desired(repository, commit, "apps/web", ignore=["!apps/"])
    assert len(again.documents) == 3


HOSTILE: list[tuple[str, str]] = [
    ("stars", "*a" * 17 + "*b"),
    ("stars and folders", "**/" + "*a/" * 5 + "**/*b"),
    ("many", "\n".join(f"{'*a' * n}*b" for n in range(1, 17)) + "\n[a" * 600),
    ("sets", "\n".join("[!-z]" * 200 for _ in range(30))),
]


@pytest.mark.parametrize("row", HOSTILE, ids=[row[0] for row in HOSTILE])
def test_time_grows_with_the_path_and_not_with_what_stars_may_be(
    origin: Origin, repository: Repository, row: tuple[str, str]
) -> None:
    """34 bytes of an ignore file would freeze a matcher that goes back."""
    long = "a" * 200
    files = {f"{long}/{long}/{long}/{n}{long}": "" for n in range(3)}
    commit = origin.commit({**files, ".gitkruiseignore": row[1]})
    before = time.process_time()
    read_desired(repository, commit)
    assert time.process_time() - before < 2


LIMITS: list[tuple[str, Mapping[str, str], str]] = [
    ("bytes", {".sourceignore": "# x\n" * 8_193}, "32 KiB of ignore files for one folder"),
    ("lines", {".sourceignore": "a\n" * 1_001}, "1,000 lines of ignore files for one folder"),
    ("a line", {".sourceignore": "a" * 1_025}, "1,024 bytes a line"),
    (
        "together",
        {".sourceignore": "a\n" * 600, "apps/web/.sourceignore": "b\n" * 600},
        "1,000 lines of ignore files for one folder",
    ),
]


@pytest.mark.parametrize("row", LIMITS, ids=[row[0] for row in LIMITS])
def test_ignore_files_beyond_a_limit_are_refused(
    origin: Origin, repository: Repository, row: tuple[str, Mapping[str, str], str]
) -> None:
    _, rules, limit = row
    commit = origin.commit({"apps/web/a.yaml": config_map("a"), **rules})
    with pytest.raises(InvalidManifests) as caught:
        read_desired(repository, commit, "apps/web")
    (finding,) = caught.value.findings
    assert finding.code == "GK9007"
    assert finding.message.endswith(f"the ignore patterns are beyond a limit: {limit}")


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


@pytest.mark.slow
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


def test_a_copied_layer_leaves_out_no_file(tmp_path: Path) -> None:
    spec = {"url": "oci://a.example/b", "layerSelector": {"operation": "copy"}}
    ignored = msgspec.convert(spec, GitSourceSpec).ignored
    (tmp_path / ".sourceignore").write_text("deploy/\n")
    for path in ("deploy/", "deploy/app.yaml"):
        assert path in Ignored(FolderFiles(tmp_path), "", "", ())
        assert path not in Ignored(FolderFiles(tmp_path), "", "", ignored)
