"""Text as people may see it: nothing from outside moves a cursor or turns a line around, numbers
have their nouns, and long lists end."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Final

UNPRINTABLE: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)


def shown(text: str, limit: int = 200) -> str:
    """Untrusted text for a message: control and bidi characters escaped, cut at `limit`."""
    safe = visible(text)
    return safe if len(safe) <= limit else safe[: limit - 1] + "…"


def visible(text: str) -> str:
    """One line of an outlet: control and bidi characters, line ends and tabs among them, escaped.

    What is escaped already stays as it is.
    """
    if text.isascii() and text.isprintable():
        return text
    return UNPRINTABLE.sub(_escape, text)


def visible_lines(text: str) -> str:
    """A text of several lines of our own: as `visible`, but line ends stay."""
    return "\n".join(map(visible, text.split("\n")))


def totals(words: Iterable[str]) -> str:
    """Return `3 created, 1 unchanged`, in the order of the first of each word."""
    return ", ".join(f"{count} {word}" for word, count in Counter(words).items())


def row(cells: Iterable[str]) -> str:
    """A line of tab-separated values: no cell can begin another cell or line."""
    return "\t".join(map(visible, cells))


def many(number: int, what: str = "pod") -> str:
    """`1 pod`, `4 pods`."""
    return f"{number} {what}{'' if number == 1 else 's'}"


def listing(names: Sequence[object], most: int) -> str:
    """`a, b, c and 4 more`: at most so many names."""
    more = len(names) - most
    return ", ".join(map(str, names[:most])) + (f" and {more} more" if more > 0 else "")


def _escape(found: re.Match[str]) -> str:
    return f"\\u{ord(found[0]):04x}"
