"""Regular expressions of schemas, matched in time linear in the text whoever wrote them.

The API server matches `pattern` with RE2, which has no backtracking. Python's `re` has, so a
pattern of a CRD somebody applies could hang the process; it is therefore compiled to a small
automaton of ours and all its states are advanced together, one step a character. The language is
RE2's without Unicode classes (`\\p{..}`); anything else is refused when the schema is compiled,
as the API server refuses what RE2 cannot do (look-around, back references).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

MAX_REPEAT: Final = 1000  # RE2's own limit on {n,m}
MAX_STATES: Final = 20_000
_TOP: Final = 0x10FFFF

Ranges: TypeAlias = tuple[tuple[int, int], ...]

_DIGIT: Final[Ranges] = ((48, 57),)
_SPACE: Final[Ranges] = ((9, 10), (12, 13), (32, 32))
_WORD: Final[Ranges] = ((48, 57), (65, 90), (95, 95), (97, 122))
_ALPHA: Final[Ranges] = ((65, 90), (97, 122))
_POSIX: Final[dict[str, Ranges]] = {
    "alnum": (*_DIGIT, *_ALPHA), "alpha": _ALPHA, "ascii": ((0, 127),), "blank": ((9, 9), (32, 32)),
    "cntrl": ((0, 31), (127, 127)), "digit": _DIGIT, "graph": ((33, 126),),
    "lower": ((97, 122),), "print": ((32, 126),), "space": ((9, 13), (32, 32)),
    "punct": ((33, 47), (58, 64), (91, 96), (123, 126)), "upper": ((65, 90),), "word": _WORD,
    "xdigit": (*_DIGIT, (65, 70), (97, 102)),
}  # fmt: skip
_CONTROL: Final = {"n": 10, "t": 9, "r": 13, "f": 12, "v": 11, "a": 7}


class BadPattern(ValueError):
    """The text is not a regular expression of the supported language."""


@dataclass(frozen=True, slots=True)
class Chars:
    """One character out of ranges of code points."""

    ranges: Ranges

    def has(self, code: int) -> bool:
        return any(low <= code <= high for low, high in self.ranges)


@dataclass(frozen=True, slots=True)
class Assert:
    """A condition on the position: ^ $ ^m $m b B."""

    kind: str


@dataclass(frozen=True, slots=True)
class Seq:
    parts: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Alt:
    options: tuple[Tree, ...]


@dataclass(frozen=True, slots=True)
class Repeat:
    part: Tree
    least: int
    most: int | None  # None: without end


Tree: TypeAlias = Chars | Assert | Seq | Alt | Repeat


def negated(ranges: Ranges) -> Ranges:
    out, after = [], 0
    for low, high in sorted(ranges):
        if low > after:
            out.append((after, low - 1))
        after = max(after, high + 1)
    if after <= _TOP:
        out.append((after, _TOP))
    return tuple(out)


def folded(ranges: Ranges) -> Ranges:
    """The ranges and the other case of their ASCII letters."""
    out = list(ranges)
    for low, high in ranges:
        for first, last, shift in ((65, 90, 32), (97, 122, -32)):
            start, end = max(low, first), min(high, last)
            if start <= end:
                out.append((start + shift, end + shift))
    return tuple(out)


_CLASSES: Final[dict[str, Ranges]] = {
    "d": _DIGIT, "s": _SPACE, "w": _WORD,
    "D": negated(_DIGIT), "S": negated(_SPACE), "W": negated(_WORD),
}  # fmt: skip
_ASSERTS: Final = {"A": "^", "z": "$", "b": "b", "B": "B"}


class _Parser:
    """Recursive descent over RE2's syntax; nesting is limited."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.flags, self.depth = text, 0, "", 0

    def peek(self, ahead: int = 0) -> str:
        index = self.at + ahead
        return self.text[index] if index < len(self.text) else ""

    def take(self) -> str:
        char = self.peek()
        if not char:
            raise BadPattern("ends too early")
        self.at += 1
        return char

    def whole(self) -> Tree:
        tree = self.alternatives()
        if self.peek():
            raise BadPattern("unexpected )")
        return tree

    def alternatives(self) -> Tree:
        self.depth += 1
        if self.depth > 100:
            raise BadPattern("nests deeper than 100 groups")
        outer = self.flags
        options = [self.sequence()]
        while self.peek() == "|":
            self.at += 1
            options.append(self.sequence())
        self.flags = outer
        self.depth -= 1
        return Alt(tuple(options)) if len(options) > 1 else options[0]

    def sequence(self) -> Tree:
        parts: list[Tree] = []
        while self.peek() not in ("", "|", ")"):
            atom = self.atom()
            if atom is not None:
                parts.append(self.repeated(atom))
        return Seq(tuple(parts))

    def repeated(self, atom: Tree) -> Tree:
        counts = {"*": (0, None), "+": (1, None), "?": (0, 1)}
        for _ in range(2):
            if self.peek() in counts and self.peek():
                least, most = counts[self.take()]
            elif self.peek() == "{" and (braces := self.braces()):
                least, most = braces
            else:
                return atom
            if self.peek() == "?":  # lazy: the same language
                self.at += 1
            if isinstance(atom, Repeat) and (least, most) != (0, 1):
                raise BadPattern("a repetition is repeated")
            atom = Repeat(atom, least, most)
        return atom

    def braces(self) -> tuple[int, int | None] | None:
        end = self.text.find("}", self.at)
        low, comma, high = self.text[self.at + 1 : end].partition(",")
        if end < 0 or not (low.isascii() and low.isdigit()) or (high and not high.isdigit()):
            return None  # a literal brace
        self.at = end + 1
        least, most = int(low), (int(high) if high else None) if comma else int(low)
        if least > MAX_REPEAT or (most or 0) > MAX_REPEAT or (most is not None and most < least):
            raise BadPattern("bad repetition count")
        return least, most

    def atom(self) -> Tree | None:
        char = self.take()
        match char:
            case "(":
                return self.group()
            case "[":
                return self.char_class()
            case "\\":
                return self.escape()
            case ".":
                return Chars(((0, _TOP),) if "s" in self.flags else negated(((10, 10),)))
            case "^" | "$":
                return Assert(char + "m" if "m" in self.flags else char)
            case "*" | "+" | "?":
                raise BadPattern("nothing to repeat")
            case _:
                return self.literal(ord(char))

    def literal(self, code: int) -> Chars:
        return self.chars(((code, code),))

    def chars(self, ranges: Ranges) -> Chars:
        return Chars(folded(ranges) if "i" in self.flags else ranges)

    def group(self) -> Tree | None:
        if self.peek() == "?":
            self.at += 1
            return self.special_group()
        return self.closed()

    def closed(self) -> Tree:
        tree = self.alternatives()
        if self.peek() != ")":
            raise BadPattern("missing )")
        self.at += 1
        return tree

    def special_group(self) -> Tree | None:
        if self.text.startswith(("P<", "<"), self.at) and self.peek(1) not in ("=", "!"):
            end = self.text.find(">", self.at)
            if end < 0:
                raise BadPattern("missing > of a group's name")
            self.at = end + 1
            return self.closed()
        flags, on = self.flags, True
        while (char := self.take()) in "imsU-":
            on = on and char != "-"
            flags = flags.replace(char, "") + (char if on else "")
        if char == ")":
            self.flags = flags
            return None
        if char != ":":
            raise BadPattern("look-around is not supported")
        outer, self.flags = self.flags, flags
        tree = self.closed()
        self.flags = outer
        return tree

    def escape(self) -> Tree:
        char = self.take()
        if char in _ASSERTS:
            return Assert(_ASSERTS[char])
        if char in _CLASSES:
            return Chars(_CLASSES[char])
        return self.literal(self.escaped_code(char))

    def escaped_code(self, char: str) -> int:
        if char == "x":
            digits = self.hex_digits()
            try:
                code = int(digits, 16)
            except ValueError:
                raise BadPattern(f"\\x{digits} is not a character") from None
            if code > _TOP:
                raise BadPattern("no such character")
            return code
        if char.isalnum() and char not in _CONTROL:
            raise BadPattern(f"\\{char} is not supported")
        return _CONTROL.get(char) or ord(char)

    def hex_digits(self) -> str:
        if self.peek() == "{":
            end = self.text.find("}", self.at)
            digits = self.text[self.at + 1 : end] if end > 0 else ""
            self.at = end + 1
            return digits
        return self.take() + self.take()

    def char_class(self) -> Chars:
        inverse = self.peek() == "^"
        self.at += inverse
        ranges: list[tuple[int, int]] = []
        first = True
        while first or self.peek() != "]":
            ranges += self.class_item()
            first = False
        self.at += 1
        chosen = folded(tuple(ranges)) if "i" in self.flags else tuple(ranges)
        return Chars(negated(chosen) if inverse else chosen)

    def class_item(self) -> Ranges:
        if self.text.startswith("[:", self.at):
            end = self.text.find(":]", self.at)
            name = self.text[self.at + 2 : end]
            if end < 0 or name.lstrip("^") not in _POSIX:
                raise BadPattern(f"[:{name}:] is not a class")
            self.at = end + 2
            return negated(_POSIX[name[1:]]) if name.startswith("^") else _POSIX[name]
        if self.peek() == "\\" and self.peek(1) in _CLASSES and self.peek(1):
            self.at += 2
            return _CLASSES[self.text[self.at - 1]]
        low = self.class_char()
        if self.peek() != "-" or self.peek(1) in ("]", ""):
            return ((low, low),)
        self.at += 1
        high = self.class_char()
        if high < low:
            raise BadPattern("a range runs backwards")
        return ((low, high),)

    def class_char(self) -> int:
        char = self.take()
        return self.escaped_code(self.take()) if char == "\\" else ord(char)


def parse(text: str) -> Tree:
    """The syntax tree of a pattern. Raises BadPattern."""
    return _Parser(text).whole()
