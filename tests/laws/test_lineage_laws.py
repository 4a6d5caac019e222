"""Whatever a shallow clone leaves out, an answer about history is that of the whole, or none."""

from __future__ import annotations

import functools
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.git.plumbing import process
from gitkruise.git.plumbing.ancestry import Lineage
from gitkruise.git.plumbing.object_db import ObjectReader
from gitkruise.git.plumbing.process import git_command
from tests.git.repos import ENV, run_git
from tests.laws.examples import one_in

PATHS = ("a", "b", "c/d")


class Undecided(Exception):
    """More of the history was asked for."""


def _deepen(_: int) -> None:
    raise Undecided


@contextmanager
def lineage(git_dir: Path, deepen: Callable[[int], None] | None) -> Iterator[Lineage]:
    def run(words: Any) -> process.Result:
        child = process.launch(git_command(git_dir, words))
        return process.collect(child, timeout_s=60, output_max=1 << 20)

    command = git_command(git_dir, ["cat-file", "--batch-command"])
    reader = ObjectReader(functools.partial(process.launch, command))
    try:
        yield Lineage(git_dir, run, reader, deepen)
    finally:
        reader.close()


Node = tuple[tuple[int, ...], str]  # how far back its parents are, and what it changes


@st.composite
def graphs(draw: st.DrawFn) -> list[Node]:
    """Commits, each with parents among the ones before and a path it changes."""
    nodes: list[Node] = [((), "a")]
    for at in range(1, draw(st.integers(8, 24))):
        near = st.integers(1, min(at, draw(st.sampled_from([1, 2, 6, 24]))))
        parents = draw(st.lists(near, min_size=1, max_size=2, unique=True))
        nodes.append((tuple(parents), draw(st.sampled_from([*PATHS, ""]))))
    return nodes


def build(folder: Path, nodes: list[Node]) -> list[str]:
    """The commits as a repository; the ids of those in main, which is the last one."""
    run_git(folder, "init", "-q", "--bare", "--initial-branch=main", "whole.git")
    lines = []
    for at, (parents, path) in enumerate(nodes):
        ref = "main" if at == len(nodes) - 1 else "building"
        who = f"D <d@example.com> {1_000 + at // 3} +0000"
        lines += [f"commit refs/heads/{ref}", f"mark :{at + 1}", f"committer {who}", "data 1", "x"]
        lines += [f"{'merge' if n else 'from'} :{at + 1 - p}" for n, p in enumerate(parents)]
        lines += [f"M 644 inline {path}", "data <<E", f"{at // 2}", "E"] if path else []
    text = "\n".join(lines) + "\n"
    subprocess.run(
        ["git", "fast-import", "--quiet", "--force"],
        cwd=folder / "whole.git", env=ENV, input=text.encode(), check=True,
    )  # fmt: skip
    run_git(folder / "whole.git", "update-ref", "-d", "refs/heads/building")
    return run_git(folder / "whole.git", "rev-list", "main").split()


Question = Callable[[Lineage], object]


def questions(one: str, other: str) -> list[Question]:
    return [
        lambda x: x.is_ancestor(one, other),
        lambda x: x.is_ancestor(other, one),
        lambda x: x.merge_base(one, other),
        lambda x: x.files_touched("", one, limit=3),
        lambda x: x.files_touched(other, one, limit=100),
        lambda x: [x.has(name) for name in (one, other)],
        *(
            functools.partial(_between, old, one, path, limit)
            for path in ([], ["a"], ["c"], ["a", "b"])
            for limit in (1, 4, 100)
            for old in ("", other)
        ),
    ]


def _between(old: str, new: str, paths: list[str], limit: int, x: Lineage) -> object:
    return [c.id for c in x.commits_between(old, new, paths=paths, limit=limit)]


DECIDED: list[bool] = []


@settings(max_examples=one_in(4))
@given(graphs(), st.integers(1, 7), st.data())
def test_an_answer_is_that_of_the_whole(nodes: list[Node], depth: int, data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ids = build(folder, nodes)
        url = f"file://{folder / 'whole.git'}"
        run_git(folder, "clone", "-q", "--bare", f"--depth={depth}", url, "short.git")
        with (
            lineage(folder / "whole.git", None) as whole,
            lineage(folder / "short.git", _deepen) as short,
        ):
            one, other = data.draw(st.permutations([ids[0], data.draw(st.sampled_from(ids))]))
            asked = st.lists(st.sampled_from(questions(one, other)), min_size=6, max_size=6)
            for ask in data.draw(asked):
                try:
                    answer = ask(short)
                except Undecided:
                    DECIDED.append(False)
                    continue
                DECIDED.append(True)
                assert answer == ask(whole)


@settings(max_examples=one_in(4))
@given(graphs(), st.data())
def test_a_range_holds_what_git_lists(nodes: list[Node], data: st.DataObject) -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        ids = build(folder, nodes)
        with lineage(folder / "whole.git", None) as whole:
            for _ in range(4):
                old, new = (data.draw(st.sampled_from(ids)) for _ in range(2))
                paths = data.draw(st.sampled_from([[], ["a"], ["c"], ["c/d"], ["a", "b"]]))
                words = ["--topo-order", new, f"^{old}", "--", *paths]
                wanted = run_git(folder / "whole.git", "rev-list", *words).split()
                assert _between(old, new, paths, 1_000, whole) == wanted


def test_many_answers_need_no_more_than_what_is_there() -> None:
    assert sum(DECIDED) > len(DECIDED) // 5
