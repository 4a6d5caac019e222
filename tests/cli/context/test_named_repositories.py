"""Every command that reads a clone answers alike where --repo names none."""

from __future__ import annotations

from typing import Final

import pytest

from tests.cli.calls import Caller

COMMANDS: Final = (
    ("plan",), ("status",), ("history", "web"), ("why", "web"), ("drift",), ("trace", "web"),
    ("wait",), ("promote", "web", "--updated", "30%"), ("rollback", "web"), ("bootstrap", "here"),
)  # fmt: skip


@pytest.mark.parametrize("words", COMMANDS, ids=lambda words: words[0])
@pytest.mark.parametrize(
    ("repo", "code", "text"),
    [
        pytest.param("https://forge.invalid/x.git", 4, "this command needs a clone", id="https"),
        pytest.param("git@forge.invalid:team/x.git", 4, "this command needs a clone", id="ssh"),
        pytest.param("https://me:sesame@forge.invalid/x.git", 4, "GK3001", id="a password"),
        pytest.param("nowhere", 4, "no such folder", id="no folder"),
    ],
)
def test_a_repository_that_is_not_here(
    gk: Caller, words: tuple[str, ...], repo: str, code: int, text: str
) -> None:
    ended = gk(*words, "--repo", repo)
    assert (ended.code, text in ended.err) == (code, True), ended
    assert "sesame" not in ended.err + ended.out
