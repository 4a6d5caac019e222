"""A mirror that became many files is packed, and nothing in it is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gitkruise.git.repository.packing import PACKS_MAX
from gitkruise.git.repository.repository import Repository
from tests.git.plumbing.test_remote import open_remote
from tests.git.repos import Origin, run_git, serve

pytestmark = pytest.mark.slow

LARGE = "x: 1\n" * 20_000  # stays at the server until it is asked for


@pytest.fixture(params=["true", "false"], ids=["partial", "whole"])
def remote(origin: Origin, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Repository]:
    run_git(origin.bare, "config", "uploadpack.allowFilter", request.param)
    run_git(origin.bare, "config", "uploadpack.allowAnySHA1InWant", "true")
    with serve(tmp_path) as base, open_remote(base, tmp_path) as repository:
        yield repository


def scatter(repository: Repository) -> list[str]:
    """Packs and loose objects as many fetches and status commits leave them."""
    folder = repository.git_dir
    blobs = [repository.write_object("blob", b"%d" % number) for number in range(PACKS_MAX)]
    for blob in blobs:
        run_git(folder, "pack-objects", "--quiet", "objects/pack/pack", data=blob.encode())
    return blobs


def objects(repository: Repository) -> set[str]:
    words = ["cat-file", "--batch-all-objects", "--batch-check"]
    return set(run_git(repository.git_dir, *words).splitlines())


def files(repository: Repository) -> list[Path]:
    return [path for path in (repository.git_dir / "objects").rglob("*") if path.is_file()]


def test_a_mirror_of_many_packs_becomes_one_of_few(origin: Origin, remote: Repository) -> None:
    first = origin.commit({"a.yaml": "1", "large.yaml": LARGE}, "first")
    remote.fetch("main")
    blobs = scatter(remote)
    status = remote.write_object("tree", b"")  # of a commit that no ref here leads to
    before = objects(remote)
    second = origin.commit({"a.yaml": "2"}, "second")
    assert len(files(remote)) > 2 * PACKS_MAX
    remote.fetch("main")
    assert len(files(remote)) < 10
    assert objects(remote) >= before
    assert [remote.read_blob(blob) for blob in (blobs[0], blobs[-1])] == [b"0", b"99"]
    assert remote.read_tree(status) == ()
    for commit in (first, second):
        entry = remote.find(commit, "large.yaml")
        assert entry is not None
        assert remote.sizes([entry.id]) == {entry.id: len(LARGE)}
    third = origin.commit({"a.yaml": "3"}, "third")
    assert remote.fetch("main") == third
    assert remote.changed_paths(first, third) == ["a.yaml"]


def test_a_mirror_that_cannot_be_packed_goes_on_as_it_is(
    origin: Origin, remote: Repository, caplog: pytest.LogCaptureFixture
) -> None:
    origin.commit({"a.yaml": "1"}, "first")
    remote.fetch("main")
    scatter(remote)
    lost = b"tree " + b"1" * 40 + b"\nauthor a <a> 1 +0000\ncommitter a <a> 1 +0000\n\nx\n"
    torn = remote.write_object("commit", lost)
    run_git(remote.git_dir, "update-ref", "refs/gitkruise/heads/torn", torn)
    for number in range(2):
        commit = origin.commit({"a.yaml": f"{number}"}, "more")
        assert remote.fetch("main") == commit
    assert [record.getMessage().split()[0] for record in caplog.records] == [
        "event=mirror-not-packed"
    ]
    assert len(files(remote)) > 2 * PACKS_MAX
