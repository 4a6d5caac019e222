"""Law of ignore files: whatever their lines are, git itself leaves out the same."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gitkruise.git.manifests.wildmatch import Matcher, lines_of, patterns_of
from tests.git.repos import ENV, run_git
from tests.laws.examples import one_in

FILES: Final = (
    "a", "b", "ab", "aab", "abc", "a.b", "a b", "a ", "a-b", "-", "]", "[a]", "é", "*", "\\", "!a",
    "#a", "A1", "d/a", "d/b", "d/ab", "d/aa/b", "d/e/a", "d/e/f/a", "d/e/f/ab.c", "e/d/a",
    "d.e/a.b", "aa/aa/aa/b", "foobar", "foo/bar", "foo/x/bar", "fooz/bar",
)  # fmt: skip
PIECES: Final = st.sampled_from(
    [
        *"aabdef.-!^#: \\[]",
        *("*", "**", "/", "/", "/**/", "?", "é", "[ab]", "[!a]", "[^b-d]", "[]a]", "[a-", "\t"),
        *("[[:alpha:]]", "[[:punct:][:space:]]", "[[:x:]]", "[\\]a]", "[a\\-z]", "[--a]", "\\*"),
        *("foo", "bar", "d/e", "\r", "\0", "\x80"),
    ]
)
LINE: Final = st.lists(PIECES, max_size=8).map("".join)
FILE: Final = st.lists(LINE, min_size=1, max_size=5).map(
    lambda lines: "\n".join(lines).encode("utf-8")
)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A work tree with all the files."""
    root = tmp_path_factory.mktemp("tree")
    run_git(root, "init", "--quiet")
    for name in FILES:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).touch()
    return root


def by_git(tree: Path, rules: bytes) -> set[str]:
    (tree / ".gitignore").write_bytes(rules)
    words = ["git", "check-ignore", "--no-index", "-z", "--stdin"]
    asked = "\0".join(FILES).encode()
    done = subprocess.run(words, cwd=tree, env=ENV, input=asked, capture_output=True, check=False)
    assert done.returncode in {0, 1}, done.stderr
    return set(filter(None, done.stdout.decode().split("\0")))


def left_out(matcher: Matcher, path: str, *, folder: bool = False) -> bool:
    above = path.rpartition("/")[0]
    if above and left_out(matcher, above, folder=True):
        return True
    return bool(matcher.verdict(path, folder=folder))


@given(rules=FILE)
@settings(max_examples=one_in(1) * 15)
def test_git_leaves_out_the_same(tree: Path, rules: bytes) -> None:
    matcher = Matcher(patterns_of(lines_of(rules)))
    assert {path for path in FILES if left_out(matcher, path)} == by_git(tree, rules)
