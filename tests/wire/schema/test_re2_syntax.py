"""Patterns match what RE2 matches, in time linear in the text."""

from __future__ import annotations

import re
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.schema.patterns import BadPattern, PatternTooCostly, compile_pattern

# Pattern, texts it matches, texts it does not.
ROWS: list[tuple[str, list[str], list[str]]] = [
    ("", ["", "a"], []),
    ("b", ["abc"], ["ac"]),
    ("^a.c$", ["abc", "a.c"], ["a\nc", "abcd", "xabc"]),
    ("^(a|bc)+$", ["a", "abca"], ["", "ab"]),
    ("^a{2,3}$", ["aa", "aaa"], ["a", "aaaa"]),
    ("^a{2}b{1,}$", ["aab", "aabbb"], ["ab", "aa"]),
    ("^a{,2}$", ["a{,2}"], ["aa"]),
    (r"^\d+(\.\d+)?(ms|s|m|h)$", ["5s", "1.5h"], ["s", "1.h"]),
    ("^[a-z]([-a-z0-9]*[a-z0-9])?$", ["a", "a-b"], ["-a", "a-"]),
    ("^[^a-c]$", ["d", "é"], ["a", "b"]),
    ("^[]a-]+$", ["]-a"], ["b"]),
    (r"^[\w.]+$", ["a_1."], ["a-b"]),
    ("^[[:alpha:]][[:^digit:]]$", ["ax"], ["a1", "1a"]),
    ("^(?i)aB[c-d]$", ["AbC", "abd"], ["abe"]),
    ("^(?i:a)b$", ["Ab"], ["AB"]),
    ("(?s)a.b", ["a\nb"], ["ab"]),
    ("(?m)^b$", ["a\nb\nc"], ["ab"]),
    (r"\bfoo\b", ["a foo b"], ["afoo"]),
    (r"a\Bb", ["ab"], ["a b"]),
    (r"\A\x41\x{42}\n\z", ["AB\n"], ["AB"]),
    ("^a??b*?$", ["", "abb"], ["ba"]),
    ("(?P<x>a)(?<y>b)", ["ab"], ["ba"]),
    (r"^\p{L}+\pN$", ["é1", "ж²"], ["1", "é"]),
    (r"^\P{Greek}[[:^ascii:]]$", ["aé"], ["λé", "aa"]),
    (r"\Qa.b\E", ["a.b"], ["axb"]),
    ("^(" * 200 + "a" + ")$" * 200, ["a"], ["b"]),
]


@pytest.mark.parametrize(("pattern", "yes", "no"), ROWS)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert [text for text in yes if not compiled.search(text)] == []
    assert [text for text in no if compiled.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing closing ): `(`"),
        ("a)b", "unexpected ): `a)b`"),
        ("[a", "missing closing ]: `[a`"),
        ("*a", "missing argument to repetition operator: `*`"),
        ("a**", "invalid nested repetition operator: `**`"),
        ("a{2000}", "invalid repeat count: `{2000}`"),
        ("a{3,2}", "invalid repeat count: `{3,2}`"),
        ("[b-a]", "invalid character class range: `b-a`"),
        ("[[:nope:]]", "invalid character class range: `[:nope:]`"),
        (r"\p{Nope}", r"invalid character class range: `\p{Nope}`"),
        ("a\\", "trailing backslash at end of expression: ``"),
        ("(?=a)", "invalid or unsupported Perl syntax: `(?=`"),
        ("(?P<n", "invalid named capture: `(?P<n`"),
        (r"(a)\1", r"invalid escape sequence: `\1`"),
        (r"\xzz", r"invalid escape sequence: `\xzz`"),
        ("((a{100}){100}){100}", "invalid repeat count: `{100}`"),
        ("([a-z]{990}x)" * 1_000, "expression too large"),
        (r"\pL" * 5_000, "expression too large"),
    ],
)
def test_patterns_outside_the_language_are_refused_in_the_words_of_go(
    pattern: str, words: str, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(BadPattern) as refused:
        compile_pattern(pattern)
    assert str(refused.value) == f"error parsing regexp: {words}"
    assert capfd.readouterr() == ("", "")


def test_a_pattern_that_hangs_backtrackers_takes_a_step_a_character() -> None:
    compiled = compile_pattern("^(a+)+$")
    assert not compiled.search("a" * 5000 + "b")
    assert compiled.search("a" * 5000)


@pytest.mark.slow
def test_a_text_is_matched_within_two_seconds_or_refused() -> None:
    """Every state of this pattern is alive at every character, so no cache helps."""
    costly = compile_pattern("((a|b)*a(a|b){990}c)?" * 20 + "d")
    began = process_time()
    assert not costly.search("ab" * 7_000)
    assert process_time() - began < 10
    with pytest.raises(PatternTooCostly, match="200000 bytes are too many"):
        costly.search("ab" * 100_000)


def test_long_patterns_and_texts_of_real_schemas_are_not_too_costly() -> None:
    assert compile_pattern(r"^[\p{L}\p{N}]{1,63}$").search("é" * 63)
    assert not compile_pattern(r"^[\p{L}\p{N}]{1,63}$").search("é" * 1_000)
    assert compile_pattern("^([a-z]+ )*$").search("word " * 300_000)


@pytest.mark.parametrize("text", ["\ud800", "a\ud800b"])
def test_a_lone_surrogate_is_matched_as_the_replacement_character(text: str) -> None:
    assert compile_pattern("\ufffd").search(text)
    assert compile_pattern("\ud800").search(text)
    assert compile_pattern("^a?.b?$").search(text)


atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", "^", "$", r"\b", "(a|b)", "(ab)*", "a?", "b+", "a{1,2}"]
)


@given(st.lists(atoms, max_size=5).map("".join), st.text("ab c\n", max_size=6))
def test_law_agrees_with_the_standard_library(pattern: str, text: str) -> None:
    wanted = re.search(pattern.replace("$", r"\Z"), text, re.ASCII) is not None
    assert compile_pattern(pattern).search(text) is wanted
