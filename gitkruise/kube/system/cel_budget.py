"""A cost limit for CEL: every turn of a loop is counted, and stops when the budget is spent.

The CEL package has no limit of its own. CEL's only loops are its macros (`all`, `exists`,
`exists_one`, `map`, `filter`), so `metered` writes a call before the body of each: a turn beyond
the budget divides by zero, which ends the loop. An error may be absorbed (`|| true`), but every
loop around it begins its own next turn with the call. What happens between two turns is bounded
by the length of the expression times the size of its variables.
"""

from __future__ import annotations

import re
import time
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

STEPS_MAX: Final = 1_000_000  # turns of loops of one expression, kube-apiserver's limit per call
EXPRESSION_S: Final = 0.5  # CPU
REQUEST_S: Final = 1.0  # CPU of all expressions of one request
METER: Final = "meter__"

_MACROS: Final = frozenset({"all", "exists", "exists_one", "existsOne", "map", "filter"})
_TOKEN: Final = re.compile(
    r"""(?P<space>\s+|//[^\n]*)
    |(?P<text>`[^`\n]*`|[bB]?[rR](?:\"{3}.*?\"{3}|'{3}.*?'{3}|"[^"\n]*"|'[^'\n]*')
      |[bB]?(?:\"{3}(?:\\.|.)*?\"{3}|'{3}(?:\\.|.)*?'{3}|"(?:\\.|[^"\\\n])*"|'(?:\\.|[^'\\\n])*'))
    |(?P<name>[A-Za-z_]\w*)
    |(?P<other>\d+(?:\.\d+)?\w*|.)""",
    re.VERBOSE | re.DOTALL,
)
_OPEN, _CLOSE = "([{", ")]}"


class Exhausted(ValueError):
    """The budget is spent. The words are those of kube-apiserver."""

    def __init__(self) -> None:
        super().__init__("operation cancelled: actual cost limit exceeded")


class CelBudget:
    """CPU time and turns of loops that expressions may take together. Not for two threads."""

    __slots__ = ("_began", "_ends", "_left_s", "_steps", "spent")

    def __init__(self, cpu_s: float = REQUEST_S) -> None:
        self._left_s = cpu_s
        self._began = self._ends = 0.0
        self._steps = 0
        self.spent = cpu_s <= 0

    def begin(self) -> None:
        """Begin an expression. Raises Exhausted when nothing is left."""
        if self.spent:
            raise Exhausted
        self._steps = STEPS_MAX
        self._began = time.thread_time()
        self._ends = self._began + min(EXPRESSION_S, self._left_s)

    def turn(self) -> bool:
        """Return whether one more turn of a loop is allowed."""
        self._steps -= 1
        if self._steps < 0 or time.thread_time() > self._ends:
            self.spent = True
        return not self.spent

    def end(self) -> None:
        """End the expression. Raises Exhausted when it was too long."""
        self._left_s -= time.thread_time() - self._began
        self.spent = self.spent or self._left_s <= 0
        if self.spent:
            raise Exhausted


def size_of(value: Any) -> int:
    """The size of a variable in values, a text counting one for each 64 characters."""
    size, waiting = 0, [value]
    while waiting:
        one = waiting.pop()
        size += 1
        if isinstance(one, str):
            size += len(one) >> 6
        elif isinstance(one, Mapping):
            waiting += one.values()
            size += len(one)
        elif isinstance(one, list | tuple):
            waiting += one
    return size


def metered(text: str) -> str | None:
    """Write a call of the meter before the body of every loop; None when there is no loop.

    `text` must be an expression that compiles.
    """
    tokens = [(found.lastgroup, found[0]) for found in _TOKEN.finditer(text)]
    seen = [number for number, (kind, _) in enumerate(tokens) if kind != "space"]
    before: dict[int, str] = {}  # token number: text to write before it
    open_: list[list[int] | None] = []  # commas of each open bracket; None where it is no loop
    for order, number in enumerate(seen):
        kind, word = tokens[number]
        if kind != "other":
            continue
        if word in _OPEN:
            open_.append([] if word == "(" and _is_loop(tokens, seen[:order][-2:]) else None)
        elif word == "," and open_:
            commas = open_[-1]
            if commas is not None:
                commas.append(number)
        elif word in _CLOSE and open_:
            for comma, end in pairwise([*(open_.pop() or ()), number]):
                before[comma + 1] = f"({METER}() ? ("
                before[end] = "\n) : (1 / 0 > 0))"  # a line of its own: a comment may come first
    if not before:
        return None
    return "".join(before.get(number, "") + word for number, (_, word) in enumerate(tokens))


def _is_loop(tokens: list[tuple[str | None, str]], previous: list[int]) -> bool:
    words = [tokens[number] for number in previous]
    return len(words) == 2 and words[0][1] == "." and words[1] in {("name", m) for m in _MACROS}
