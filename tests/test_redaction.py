"""The quick look at a text overlooks no secret that the whole rule finds."""

from __future__ import annotations

from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise import redaction

PIECES: Final = (
    "--", "-", "password", "Passwd", "token", "SECRET", "api-key", "apiKey", "=x", " y", "://",
    "https://", "http://", "a:b@", "@", "AKIA" + "A" * 16, "akia" + "0" * 16, "eyJa.b.c",
    "ghp_" + "a" * 20, "github_pat_" + "b" * 20, "glpat-" + "c" * 16, "xoxb-" + "d" * 10,
    "AGE-SECRET-KEY-1x", "-----BEGIN PRIVATE KEY-----", "web-1", "\u017fecret", "\n", " ",
)  # fmt: skip


@given(st.lists(st.sampled_from(PIECES), max_size=6).map("".join))
def test_the_quick_look_overlooks_nothing(text: str) -> None:
    found = redaction._LOOKS.search(text) is not None
    assert redaction.looks_secret(text) == found


@pytest.mark.parametrize(
    "text", ["--token=x", "-password y", "--my-api-key=z", "x --client-secret s"]
)
def test_options_of_programs_are_covered(text: str) -> None:
    assert redaction.looks_secret(text)
    assert redaction.scrubbed(text).endswith("***")


@pytest.mark.parametrize("text", ["web-1", "--replicas=3", "a-b-c", "token", "app:v1"])
def test_plain_text_stays(text: str) -> None:
    assert redaction.scrubbed(text) == text
