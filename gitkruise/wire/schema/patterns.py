"""Regular expressions of schemas and policies, matched by RE2 as the API server matches them.

Python's `re` backtracks, so a pattern of a foreign CRD could keep it busy for years. RE2 never
does: a match costs at most the text's length times the size of the compiled pattern, and nearly
always the text's length alone. Both factors have a limit here. Errors read like those of Go's
`regexp`, which the API server quotes.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any, Final

# Memory of one compiled pattern and its caches; RE2's own default. `[\p{L}\p{N}]{1,63}` fits in.
MAX_MEMORY: Final = 8 << 20
# RE2 reads one `\pL` in a fifth of a millisecond and 30 KiB: a million of them take minutes.
MAX_LENGTH: Final = 10_000  # characters of a pattern
# Instructions of the pattern times bytes of the text: about two seconds when RE2's cache of
# states is of no use, and far above what a pattern and a text have that belong together.
MAX_STEPS: Final = 300_000_000

# A group in a template of Go's `Expand`; any other `$` is a `$`.
_REFERENCE: Final = re.compile(r"\$(?:(?P<dollar>\$)|\{(?P<braced>\w+)\}|(?P<name>\w+))", re.ASCII)

_TOO_LARGE: Final = "pattern too large"

# RE2's words for an error, and Go's.
_GO_WORDS: Final = {
    "invalid character class range": "invalid character class range",
    "invalid escape sequence": "invalid escape sequence",
    "invalid named capture group": "invalid named capture",
    "invalid perl operator": "invalid or unsupported Perl syntax",
    "bad repetition operator": "invalid nested repetition operator",
    "invalid repetition size": "invalid repeat count",
    "missing ]": "missing closing ]",
    "missing )": "missing closing )",
    "no argument for repetition operator": "missing argument to repetition operator",
    "trailing \\": "trailing backslash at end of expression",
    "unexpected )": "unexpected )",
}


class BadPattern(ValueError):
    """The text is not a regular expression that RE2 accepts."""


class PatternTooCostly(ValueError):
    """The text is too long for a pattern of this size."""


class CompiledPattern:
    """A compiled pattern. `search` is true when the pattern matches anywhere in a text."""

    __slots__ = ("_compiled", "_longest", "source")
    _captures = False

    def __init__(self, source: str) -> None:
        self.source = source
        self._compiled = _compiled(source, captures=self._captures)
        size = max(1, self._compiled.programsize)
        self._longest = MAX_STEPS // size

    def search(self, text: str) -> bool:
        """Return whether the pattern matches somewhere in `text`. Raises PatternTooCostly."""
        return self._found(text) is not None

    def check_size(self, size: int) -> None:
        """Raise PatternTooCostly for more bytes of text than the pattern may be matched with."""
        if size > self._longest:
            raise PatternTooCostly(
                f"{size} bytes are too many for a pattern of this size: "
                f"at most {self._longest} can be matched"
            )

    def _found(self, text: str) -> Any:
        data = _utf8(text)
        self.check_size(len(data))
        return self._compiled.search(data)


class ExtractingPattern(CompiledPattern):
    """A compiled pattern that also finds its groups."""

    __slots__ = ()
    _captures = True

    def expand(self, text: str, template: str) -> str | None:
        """Return `template` with the groups of the first match, as Go's `Expand` writes it; None
        where nothing matches. Raises PatternTooCostly."""
        found = self._found(text)
        if found is None:
            return None
        groups = self._compiled.groupindex

        def group(reference: re.Match[str]) -> str:
            if reference["dollar"]:
                return "$"
            name = reference["braced"] or reference["name"]
            number = int(name) if name.isdecimal() else groups.get(_utf8(name), -1)
            known = 0 <= number <= self._compiled.groups
            return (found.group(number) or b"").decode() if known else ""

        return _REFERENCE.sub(group, template)


def _compiled(source: str, *, captures: bool) -> Any:
    import re2  # noqa: PLC0415 -- 18 ms that a command without patterns saves

    if len(source) > MAX_LENGTH:
        raise BadPattern(_as_go_says(_TOO_LARGE))
    try:
        return re2.compile(_utf8(source), _options(captures=captures))
    except re2.error as error:
        raise BadPattern(_as_go_says(error.args[0].decode(errors="replace"))) from None


@cache
def _options(*, captures: bool) -> Any:
    import re2  # noqa: PLC0415

    options = re2.Options()
    options.log_errors = False  # RE2 would write to stderr
    options.max_mem = MAX_MEMORY
    options.never_capture = not captures  # finding groups is the slow part
    return options


def _as_go_says(error: str) -> str:
    for words, go_words in _GO_WORDS.items():
        if error == words or error.startswith(words + ": "):
            return f"error parsing regexp: {go_words}: `{error[len(words) + 2 :]}`"
    if error.startswith(_TOO_LARGE):
        return "error parsing regexp: expression too large"
    return f"error parsing regexp: {error}"


def _utf8(text: str) -> bytes:
    """The text in UTF-8; a lone surrogate becomes U+FFFD, as in Go's JSON decoder."""
    try:
        return text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def compile_pattern(source: str) -> CompiledPattern:
    """Compile a pattern. Raises BadPattern with the words of Go's `regexp`."""
    return CompiledPattern(source)
