"""Objects read one by one, in batches, and from memory are the same objects."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import closing
from typing import Final

import pytest

from gitkruise.errors import SourceFailed
from gitkruise.git.plumbing.object_db import ObjectReader
from gitkruise.git.plumbing.process import git_command, launch
from gitkruise.git.plumbing.trees import TreeEntry
from tests.git.repos import Origin, make_origin, run_git

FILES: Final = 150  # more than one exchange holds
ABSENT: Final = "1" * 40


@pytest.fixture(scope="module")
def origin(tmp_path_factory: pytest.TempPathFactory) -> Origin:
    made = make_origin(tmp_path_factory.mktemp("objects"))
    made.commit({f"{n:03}.yaml": f"n: {n}\n" for n in range(FILES)} | {"few/a.yaml": "a: 1\n"})
    return made


@pytest.fixture
def reader(origin: Origin) -> Iterator[ObjectReader]:
    command = git_command(origin.bare, ["cat-file", "--batch-command"])
    with closing(ObjectReader(lambda: launch(command))) as opened:
        yield opened


def _root(origin: Origin) -> str:
    return run_git(origin.bare, "rev-parse", "main^{tree}")


def test_files_read_ahead_are_given_once_and_then_read_again(
    origin: Origin, reader: ObjectReader
) -> None:
    entries = [entry for entry in reader.tree(_root(origin)) if entry.is_file]
    reader.read_ahead([entry.id for entry in entries])
    for _ in range(2):
        contents = [reader.contents(entry.id, "blob") for entry in entries]
        assert contents == [f"n: {n}\n".encode() for n in range(FILES)]


@pytest.mark.parametrize("name", [ABSENT, "tree"])
def test_what_is_no_file_is_an_error_only_when_it_is_asked_for(
    origin: Origin, reader: ObjectReader, name: str
) -> None:
    wrong = _root(origin) if name == "tree" else name
    good = reader.tree(_root(origin))[0]
    reader.read_ahead([wrong, good.id])
    reader.load_trees([ABSENT, good.id, _root(origin)])
    assert reader.contents(good.id, "blob") == b"n: 0\n"
    for ask in (lambda: reader.contents(wrong, "blob"), lambda: reader.tree(ABSENT)):
        with pytest.raises(SourceFailed, match="GK3104"):
            ask()


def test_names_are_found_in_small_and_in_wide_trees(origin: Origin, reader: ObjectReader) -> None:
    few = reader.child(_root(origin), "few")
    assert few is not None
    assert few.is_tree
    found = [reader.child(tree, "a.yaml") for tree in (few.id, _root(origin))]
    assert [entry and entry.path for entry in found] == ["a.yaml", None]
    last = reader.child(_root(origin), f"{FILES - 1:03}.yaml")
    assert last == reader.tree(_root(origin))[FILES - 1]


def test_of_two_entries_with_one_name_the_first_counts(
    origin: Origin, reader: ObjectReader
) -> None:
    blobs = [origin.blob(text) for text in (b"first", b"second")]
    for width in (0, 20):
        more = "".join(f"100644 blob {blobs[0]}\tb{n:02}\n" for n in range(width))
        lines = "".join(f"100644 blob {blob}\ta\n" for blob in blobs) + more
        tree = run_git(origin.bare, "mktree", "--missing", data=lines.encode())
        found = reader.child(tree, "a")
        assert found == reader.tree(tree)[0]


def test_wide_trees_are_forgotten_before_they_fill_the_memory(
    origin: Origin, reader: ObjectReader
) -> None:
    """Each commit to a status branch of 2,000 units has another tree with as many entries."""
    blob, width, trees = origin.blob(b"x"), 2_000, 100
    lines = [f"100644 blob {blob}\tunit{n:04}\n" for n in range(width)]
    listings = ["".join(f"{line[:-1]}{at}\n" for line in lines) for at in range(trees)]
    made = run_git(
        origin.bare, "mktree", "--missing", "--batch", data="\n".join(listings).encode()
    ).split()
    before = entries_in_memory()
    for tree in made:
        assert len(reader.tree(tree)) == width
    assert 0 < entries_in_memory() - before <= trees * width * 3 // 4
    assert reader.tree(made[0])[-1].path == f"unit{width - 1}0"


def entries_in_memory() -> int:
    return sum(type(known) is TreeEntry for known in gc.get_objects())
