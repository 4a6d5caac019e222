"""Lines of an ignore file, matched by git's rules in time that grows with path times lines."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

_SLASH: Final = ord("/")
_BACKSLASH: Final = ord("\\")
_STAR: Final = ord("*")
_QUESTION: Final = ord("?")
_OPEN, _CLOSE, _DASH = ord("["), ord("]"), ord("-")
_SPECIAL: Final = frozenset(b"*?[\\")
_NEGATIONS: Final = frozenset(b"!^")
_ALL: Final = (1 << 256) - 1
_NO_SLASH: Final = _ALL & ~(1 << _SLASH)
Token: TypeAlias = int  # a set of bytes: bit n is the byte n


def _set(test: Callable[[int], bool]) -> Token:
    return sum(1 << byte for byte in range(128) if test(byte))


_GRAPHIC: Final = _set(lambda b: 0x20 < b < 0x7F)
_ALNUM: Final = _set(lambda b: chr(b).isalnum())
_CLASSES: Final[Mapping[bytes, Token]] = {  # as git defines them, for bytes below 128
    b"alnum": _ALNUM,
    b"alpha": _set(lambda b: chr(b).isalpha()),
    b"blank": _set(lambda b: b in b" \t"),
    b"cntrl": _set(lambda b: b < 0x20 or b == 0x7F),
    b"digit": _set(lambda b: chr(b).isdigit()),
    b"graph": _GRAPHIC,
    b"lower": _set(lambda b: chr(b).islower()),
    b"print": _set(lambda b: 0x20 <= b < 0x7F),
    b"punct": _GRAPHIC & ~_ALNUM,
    b"space": _set(lambda b: b in b" \t\n\r"),
    b"upper": _set(lambda b: chr(b).isupper()),
    b"xdigit": _set(lambda b: b in b"0123456789abcdefABCDEF"),
}


@dataclass(slots=True)
class _Chain:
    """A pattern: the bytes it takes one after another, and what may come between two of them.

    `loops[n]` are the bytes that may be repeated after n tokens; `skips` are the numbers of tokens
    after which the next one may be left out (`**/` matches nothing, too).
    """

    tokens: list[Token] = field(default_factory=list)
    loops: dict[int, Token] = field(default_factory=dict)
    skips: set[int] = field(default_factory=set)


@dataclass(frozen=True, slots=True)
class IgnorePattern:
    """One line of an ignore file."""

    chain: _Chain
    negative: bool
    folders_only: bool


def lines_of(data: bytes) -> list[bytes]:
    """The lines of an ignore file: a byte order mark and carriage returns are no part of them."""
    lines = data.removeprefix(b"\xef\xbb\xbf").split(b"\n")
    return [line.removesuffix(b"\r").partition(b"\0")[0] for line in lines]


def patterns_of(lines: Sequence[bytes]) -> list[IgnorePattern]:
    """The patterns of the lines that can match, in their order."""
    found = (_pattern(_trimmed(line)) for line in lines if line and not line.startswith(b"#"))
    return [pattern for pattern in found if pattern is not None]


def _trimmed(line: bytes) -> bytes:
    """The line without spaces at its end, unless a backslash protects them."""
    bare = line.rstrip(b" ")
    backslashes = len(bare) - len(bare.rstrip(b"\\"))
    if backslashes % 2 and bare != line:
        return bare + b" "
    return bare


def _pattern(line: bytes) -> IgnorePattern | None:
    negative = line.startswith(b"!")
    body = line[negative:]
    folders_only = body.endswith(b"/")
    body = body.removesuffix(b"/")
    chain = _chain(body.removeprefix(b"/"), anchored=b"/" in body)
    return IgnorePattern(chain, negative, folders_only) if chain is not None else None


def _chain(body: bytes, *, anchored: bool) -> _Chain | None:
    """The chain of a pattern; None for one that matches nothing.

    A pattern without a slash is looked for in every folder. git compares the text before the first
    special byte on its own, so that a `**` right after it counts as one at the beginning.
    """
    chain = _Chain()
    if not anchored:
        chain.loops[0] = _ALL
        chain.tokens.append(1 << _SLASH)
        chain.skips.add(0)
    plain = next((at for at, byte in enumerate(body) if byte in _SPECIAL), len(body))
    at = 0
    while at < len(body):
        byte = body[at]
        if byte == _STAR:
            at = _stars(body, at, chain, first=at in {0, plain}, anchored=anchored)
            continue
        found = _token(body, at)
        if found is None:
            return None
        token, at = found
        chain.tokens.append(token)
    return chain


def _token(body: bytes, at: int) -> tuple[Token, int] | None:
    """(what one position takes, where the next one begins); None where nothing can match."""
    byte = body[at]
    if byte == _QUESTION:
        return _NO_SLASH, at + 1
    if byte == _OPEN:
        return _bracket(body, at + 1)
    if byte == _BACKSLASH:
        return (1 << body[at + 1], at + 2) if at + 1 < len(body) else None
    return 1 << byte, at + 1


def _stars(body: bytes, at: int, chain: _Chain, *, first: bool, anchored: bool) -> int:
    """Add a run of stars; where the pattern goes on."""
    end = at
    while end < len(body) and body[end] == _STAR:
        end += 1
    whole = end - at > 1 and anchored and (first or body[at - 1] == _SLASH)
    after = body[end : end + 2]
    here = len(chain.tokens)
    if not whole or (after and not after.startswith((b"/", b"\\/"))):
        chain.loops[here] = chain.loops.get(here, 0) | _NO_SLASH
        return end
    if not after.startswith(b"/"):
        chain.loops[here] = _ALL
        return end
    if here - 1 not in chain.skips or here == 0:  # `**/**/` is `**/`
        chain.loops[here] = _ALL
        chain.skips.add(here)
        chain.tokens.append(1 << _SLASH)
    return end + 1


def _bracket(body: bytes, at: int) -> tuple[Token, int] | None:
    """The bytes of `[...]` whose inside begins at `at`; None when it is not well formed."""
    negated = at < len(body) and body[at] in _NEGATIONS
    at += negated
    found, before, first = 0, 0, True
    while at < len(body) and (first or body[at] != _CLOSE):
        first = False
        member = _member(body, at, before)
        if member is None:
            return None
        some, before, at = member
        found |= some
    if at >= len(body):
        return None
    return (_NO_SLASH & ~found if negated else _NO_SLASH & found), at + 1


def _member(body: bytes, at: int, before: int) -> tuple[Token, int, int] | None:
    """(bytes one member of `[...]` adds, the byte a range may begin with, where the next is)."""
    byte, following = body[at], body[at + 1 : at + 2]
    if byte == _BACKSLASH:
        return (1 << body[at + 1], body[at + 1], at + 2) if following else None
    if byte == _DASH and before and following and following != b"]":
        at += 1 + (following == b"\\")
        if at >= len(body):
            return None
        some = sum(1 << one for one in range(before, body[at] + 1))
        return some, 0, at + 1
    if byte == _OPEN and following == b":":
        end = body.find(b"]", at + 2)
        if end < 0:
            return None
        if end > at + 2 and body[end - 1] == ord(":"):
            named = _CLASSES.get(body[at + 2 : end - 1])
            return (named, 0, end + 1) if named is not None else None
    return 1 << byte, byte, at + 1


class Matcher:
    """All patterns of one ignore file as one automaton, stepped once for each byte of a path.

    A state is a bit: a number of tokens taken, pattern after pattern. The states after the folders
    of the last path are kept, so that a walk steps over each name once.
    """

    def __init__(self, patterns: Sequence[IgnorePattern]) -> None:
        self._tokens: dict[Token, int] = {}  # to the states that wait for one of these bytes
        self._loops: dict[Token, int] = {}
        self._skips = self._start = self._folder_ends = self._size = 0
        self._ends: dict[int, bool] = {}  # by state: whether it takes a path in again
        for pattern in patterns:
            self._add(pattern)
        self._any_end = sum(1 << state for state in self._ends)
        self._masks: dict[int, tuple[int, int]] = {}
        self._trail = [("", self._entered(self._start))]

    def _add(self, pattern: IgnorePattern) -> None:
        chain, first = pattern.chain, self._size
        for number, token in enumerate(chain.tokens, first):
            self._tokens[token] = self._tokens.get(token, 0) | 1 << number
        for number, loop in chain.loops.items():
            self._loops[loop] = self._loops.get(loop, 0) | 1 << (first + number)
        for number in chain.skips:
            self._skips |= 1 << (first + number)
        last = first + len(chain.tokens)
        self._start |= 1 << first
        self._ends[last] = pattern.negative
        self._folder_ends |= pattern.folders_only << last
        self._size = last + 1

    def verdict(self, path: str, *, folder: bool) -> bool | None:
        """Return whether the last pattern that matches leaves `path` out; None without a match."""
        trail = self._trail
        while not path.startswith(trail[-1][0]):
            trail.pop()
        while (end := path.find("/", len(trail[-1][0]))) >= 0:
            known, states = trail[-1]
            trail.append((path[: end + 1], self._step(states, path[len(known) : end + 1])))
        known, states = trail[-1]
        ends = self._step(states, path[len(known) :]) & self._any_end
        if not folder:
            ends &= ~self._folder_ends
        return not self._ends[ends.bit_length() - 1] if ends else None

    def _step(self, states: int, text: str) -> int:
        for byte in text.encode("utf-8", "surrogateescape"):
            taken, repeated = self._masks.get(byte) or self._mask(byte)
            states = self._entered((states & taken) << 1) | (states & repeated)
            if not states:
                break
        return states

    def _entered(self, states: int) -> int:
        return states | (states & self._skips) << 1

    def _mask(self, byte: int) -> tuple[int, int]:
        """(states that go on with this byte, states that stay with it)."""
        taken, repeated = (
            sum(states for token, states in table.items() if token >> byte & 1)
            for table in (self._tokens, self._loops)
        )
        self._masks[byte] = taken, repeated
        return taken, repeated
