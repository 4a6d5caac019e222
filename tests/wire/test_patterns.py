"""Patterns match what RE2 matches, in time linear in the text."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gitkruise.wire.automaton import compile_pattern
from gitkruise.wire.patterns import BadPattern

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
]


@pytest.mark.parametrize(("pattern", "yes", "no"), ROWS)
def test_patterns(pattern: str, yes: list[str], no: list[str]) -> None:
    compiled = compile_pattern(pattern)
    assert [text for text in yes if not compiled.search(text)] == []
    assert [text for text in no if compiled.search(text)] == []


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("(", "missing \\)"),
        (")", "unexpected \\)"),
        ("[a", "ends too early"),
        ("*a", "nothing to repeat"),
        ("a**", "a repetition is repeated"),
        ("a{2000}", "bad repetition count"),
        ("a{3,2}", "bad repetition count"),
        ("[b-a]", "runs backwards"),
        ("[[:nope:]]", "is not a class"),
        ("a\\", "ends too early"),
        ("(?=a)", "look-around"),
        ("(?<!a)b", "look-around"),
        (r"(a)\1", "\\\\1 is not supported"),
        (r"\p{L}", "\\\\p is not supported"),
        (r"\xzz", "is not a character"),
        ("(" * 200 + ")" * 200, "nests deeper"),
        ("((a{100}){100}){100}", "needs more than"),
    ],
)
def test_patterns_outside_the_language_are_refused(pattern: str, words: str) -> None:
    with pytest.raises(BadPattern, match=words):
        compile_pattern(pattern)


def test_a_pattern_that_hangs_backtrackers_takes_a_step_a_character() -> None:
    compiled = compile_pattern("^(a+)+$")
    assert not compiled.search("a" * 5000 + "b")
    assert compiled.search("a" * 5000)


atoms = st.sampled_from(
    ["a", "b", ".", "[ab]", "[^a]", r"\w", "^", "$", r"\b", "(a|b)", "(ab)*", "a?", "b+", "a{1,2}"]
)


@given(st.lists(atoms, max_size=5).map("".join), st.text("ab c\n", max_size=6))
def test_law_agrees_with_the_standard_library(pattern: str, text: str) -> None:
    wanted = re.search(pattern.replace("$", r"\Z"), text, re.ASCII) is not None
    assert compile_pattern(pattern).search(text) is wanted
