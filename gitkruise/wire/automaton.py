"""A pattern's automaton: its states advance together, so a match costs text × states at most."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from gitkruise.wire.patterns import (
    MAX_STATES,
    Alt,
    Assert,
    BadPattern,
    Chars,
    Repeat,
    Seq,
    Tree,
    parse,
)

_WORD: Final = frozenset("0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz")


class Pattern:
    """A compiled pattern. `search` is RE2's: true when the pattern matches anywhere in the text.

    States are numbers; each has a test (characters, an assertion, or nothing) and successors.
    """

    __slots__ = ("_accept", "_next", "_start", "_test", "source")

    def __init__(self, source: str) -> None:
        self.source = source
        self._test: list[Chars | Assert | None] = [None]
        self._next: list[tuple[int, ...]] = [()]
        self._accept = 0
        self._start = self._add(parse(source), 0)

    def _state(self, test: Chars | Assert | None, then: tuple[int, ...]) -> int:
        if len(self._test) >= MAX_STATES:
            raise BadPattern(f"needs more than {MAX_STATES} states")
        self._test.append(test)
        self._next.append(then)
        return len(self._test) - 1

    def _add(self, tree: Tree, then: int) -> int:
        """Add `tree` before state `then`; the state it begins with."""
        match tree:
            case Chars() | Assert():
                return self._state(tree, (then,))
            case Seq(parts):
                for part in reversed(parts):
                    then = self._add(part, then)
                return then
            case Alt(options):
                return self._state(None, tuple(self._add(option, then) for option in options))
            case Repeat():
                return self._repeat(tree, then)

    def _repeat(self, tree: Repeat, then: int) -> int:
        if tree.most is None:
            loop = self._state(None, ())
            self._next[loop] = (self._add(tree.part, loop), then)
            then = loop
        else:
            end = then
            for _ in range(tree.most - tree.least):
                then = self._state(None, (self._add(tree.part, then), end))
        for _ in range(tree.least):
            then = self._add(tree.part, then)
        return then

    def search(self, text: str) -> bool:
        """Whether the pattern matches somewhere in `text`."""
        alive: set[int] = set()
        for at in range(len(text) + 1):
            seen = self._closure((*alive, self._start), text, at)
            if self._accept in seen:
                return True
            if at < len(text):
                alive = self._step(seen, ord(text[at]))
        return False

    def _step(self, seen: Iterable[int], code: int) -> set[int]:
        out: set[int] = set()
        for state in seen:
            test = self._test[state]
            if isinstance(test, Chars) and test.has(code):
                out.update(self._next[state])
        return out

    def _closure(self, states: Iterable[int], text: str, at: int) -> set[int]:
        """Every state reachable without reading a character."""
        seen: set[int] = set()
        stack = list(states)
        while stack:
            state = stack.pop()
            if state in seen:
                continue
            seen.add(state)
            test = self._test[state]
            if test is None or (isinstance(test, Assert) and _holds(test.kind, text, at)):
                stack.extend(self._next[state])
        return seen


def _is_word(char: str) -> bool:
    return char in _WORD


def _holds(kind: str, text: str, at: int) -> bool:
    before, after = text[at - 1 : at] if at else "", text[at : at + 1]
    match kind:
        case "^":
            return not before
        case "$":
            return not after
        case "^m":
            return before in ("", "\n")
        case "$m":
            return after in ("", "\n")
        case _:
            edge = _is_word(before) != _is_word(after)
            return edge == (kind == "b")


def compile_pattern(source: str) -> Pattern:
    """The automaton of a pattern. Raises BadPattern for what RE2's language does not have."""
    return Pattern(source)
