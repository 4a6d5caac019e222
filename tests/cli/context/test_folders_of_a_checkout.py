"""Commands find the checkout and its configuration from each of its folders, as git does."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent
from typing import Final

import pytest

from gitkruise.cli.context.local_repository import checkout_of
from tests.cli.calls import Caller
from tests.cli.shop import Checkout, cloneset, unit_record
from tests.git.repos import run_git

CONFIG: Final = dedent("""\
    apiVersion: gitkruise.io/v1alpha1
    kind: GitSource
    metadata: {name: shop}
    spec: {url: ., ref: {branch: main}}
    ---
    apiVersion: gitkruise.io/v1alpha1
    kind: Unit
    metadata: {name: web}
    spec: {sourceRef: {name: shop}, path: apps}
    """)
COMMANDS: Final = (
    ("plan", "--offline"), ("status", "--all-clusters"), ("history",), ("history", "checkout"),
    ("drift",), ("doctor", "git", "config"), ("wait", "--commit", "HEAD", "--timeout", "1s"),
)  # fmt: skip


@pytest.fixture
def recorded(checkout: Checkout) -> Checkout:
    files: dict[str, str | None] = {"gitkruise.yaml": CONFIG, "apps/web/checkout.yaml": cloneset()}
    checkout.commit("first release", files)
    checkout.record("sandbox", unit_record())
    return checkout


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_a_folder_of_a_checkout_answers_as_its_top(
    gk: Caller, recorded: Checkout, words: tuple[str, ...]
) -> None:
    top = gk(*words, cwd=recorded.folder)
    below = gk(*words, cwd=recorded.folder / "apps" / "web")
    named = gk(*words, "--repo", str(recorded.folder / "apps"))
    assert (below.code, below.out) == (top.code, top.out)
    assert (named.code, named.out) == (top.code, top.out)
    assert "GK3103" not in top.out + top.err
    assert "GK7011" not in top.out + top.err


def test_the_checkout_that_holds_a_folder(tmp_path: Path) -> None:
    outer, bare = tmp_path / "outer", tmp_path / "outer" / "bare.git"
    run_git(tmp_path, "init", "-q", str(outer))
    run_git(tmp_path, "init", "-q", "--bare", str(bare))
    below = outer / "a" / "b"
    below.mkdir(parents=True)
    assert checkout_of(below) == checkout_of(outer) == outer.resolve()
    assert checkout_of(bare) == bare.resolve()
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    assert checkout_of(elsewhere) == elsewhere.resolve()
    tree = tmp_path / "tree"  # .git is a file there
    run_git(outer, "commit", "-q", "--allow-empty", "-m", "first")
    run_git(outer, "worktree", "add", "-q", str(tree))
    (tree / "sub").mkdir()
    assert checkout_of(tree / "sub") == tree.resolve()
    assert (tree / ".git").is_file()
