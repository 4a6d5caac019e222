"""Files of a big repository stay at the server until a unit reads them; history comes whole."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.git.manifests.reader import ParseCache, read_desired
from gitkruise.git.repository.repository import Repository
from tests.git.repos import Origin, run_git, serve

pytestmark = pytest.mark.slow

FILE = "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\n"


class Far:
    """A mirrored repository, and how it was spoken to."""

    def __init__(self, repository: Repository, asked: list[str]) -> None:
        self.repository, self.asked = repository, asked

    def conversations(self) -> int:
        count = sum("/info/refs?" in line for line in self.asked)
        self.asked.clear()
        return count

    def here(self, blobs: list[str]) -> list[bool]:
        return [info is not None for info in self.repository._reader.info(blobs)]


@pytest.fixture(params=[True, False], ids=["filtering server", "plain server"])
def far(request: pytest.FixtureRequest, origin: Origin, tmp_path: Path) -> Iterator[Far]:
    run_git(origin.bare, "config", "uploadpack.allowFilter", "true" if request.param else "false")
    origin.commit({f"{unit}/{n}.yaml": FILE.format(name=n) for unit in "ab" for n in range(20)})
    asked: list[str] = []
    with (
        serve(tmp_path, asked=asked) as base,
        Repository.open(f"{base}/origin.git", mirrors=tmp_path / "m", protocols={"http"}) as opened,
    ):
        yield Far(opened, asked)


@pytest.fixture
def filtering(request: pytest.FixtureRequest) -> bool:
    return "filtering" in request.node.callspec.id


def test_a_unit_fetches_its_own_files_in_one_go(far: Far, origin: Origin, filtering: bool) -> None:
    tip = far.repository.fetch("main")
    assert far.conversations() == 2
    blobs = {unit: _blobs(origin, unit) for unit in "ab"}
    assert any(far.here(blobs["a"])) == (not filtering)
    wanted = read_desired(far.repository, tip, "a", cache=ParseCache())
    assert len(wanted.documents) == 20
    assert far.conversations() == (1 if filtering else 0)
    assert all(far.here(blobs["a"]))
    read_desired(far.repository, tip, "a", cache=ParseCache())
    assert far.conversations() == 0


def test_what_is_new_comes_with_the_news(far: Far, origin: Origin, filtering: bool) -> None:
    """A push is applied after one conversation, but for files too large to be manifests."""
    far.repository.fetch("main")
    far.asked.clear()
    new = {"a/new.yaml": FILE.format(name="new"), "a/large.bin": "x" * 100_000}
    origin.commit(new)
    announced = far.repository.follow({"refs/heads/main"})
    assert announced is not None
    assert far.conversations() == 1
    tip = announced.refs["refs/heads/main"].commit
    found = {path: entry for path in new if (entry := far.repository.find(tip, path))}
    assert far.here([found["a/new.yaml"].id, found["a/large.bin"].id]) == [True, not filtering]


@pytest.mark.parametrize("refused", [["blob:limit"], ["blob:none"], ["blob:limit", "blob:none"]])
def test_a_server_may_know_few_filters(far: Far, origin: Origin, refused: list[str]) -> None:
    for name in refused:
        run_git(origin.bare, "config", f"uploadpackfilter.{name}.allow", "false")
    for name in ("old", "new"):
        origin.commit({"a/1.yaml": FILE.format(name=name)})
        tip = far.repository.fetch("main")
        found = read_desired(far.repository, tip, "a", cache=ParseCache())
        assert name in {d.obj["metadata"]["name"] for d in found.documents}


def test_history_is_whole(far: Far, origin: Origin) -> None:
    first = far.repository.fetch("main")
    second = origin.commit({"a/1.yaml": FILE.format(name="one")})
    third = origin.commit({"b/1.yaml": FILE.format(name="one")})
    assert far.repository.fetch("main") == third
    assert far.repository.is_ancestor(first, third)
    touching = far.repository.commits_between(first, third, paths=["a"])
    assert [commit.id for commit in touching] == [second]
    assert far.repository.changed_paths(first, third) == ["a/1.yaml", "b/1.yaml"]
    run_git(origin.work, "reset", "--hard", "--quiet", first)
    run_git(origin.work, "push", "--quiet", "--force", "origin", "HEAD:main")
    assert not far.repository.is_ancestor(third, far.repository.fetch("main"))


def test_a_file_that_comes_back_is_read_again(far: Far, origin: Origin) -> None:
    """A revert brings a file the server thinks we have."""
    far.repository.fetch("main")
    origin.commit({"a/1.yaml": FILE.format(name="changed")})
    far.repository.fetch("main")
    tip = origin.commit({"a/1.yaml": FILE.format(name=1), "b/new.yaml": FILE.format(name="x")})
    far.repository.fetch("main")
    found = read_desired(far.repository, tip, "", cache=ParseCache())
    assert {d.obj["metadata"]["name"] for d in found.documents} >= {1, "x"}


def test_a_file_that_no_unit_reads_may_change(far: Far, origin: Origin) -> None:
    """A server sends a long file as its difference from one that stayed there."""
    lines = [f"line {n} of what people read\n" for n in range(60)]
    origin.commit({"README.md": "".join(lines)})
    far.repository.fetch("main")
    origin.commit({"README.md": "".join([*lines[:30], "something new\n", *lines[30:]])})
    tip = far.repository.fetch("main")
    assert tip == run_git(origin.bare, "rev-parse", "main")


def test_status_can_be_pushed_from_a_mirror_without_files(far: Far, origin: Origin) -> None:
    tip = far.repository.fetch("main")
    tree = far.repository.tree_id(tip)
    text = f"tree {tree}\nparent {tip}\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n"
    commit = far.repository.write_object("commit", text.encode())
    far.repository.push_ref("refs/heads/status", commit, old=None)
    assert run_git(origin.bare, "rev-parse", "refs/heads/status") == commit


def _blobs(origin: Origin, path: str) -> list[str]:
    lines = run_git(origin.bare, "ls-tree", "-r", "main", path + "/").splitlines()
    return [line.split()[2] for line in lines]
