"""Ranges of semantic versions, written as Flux takes them, over the names of tags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

import semantic_version

from gitkruise.errors import Finding, UsageProblem
from gitkruise.wire.primitives.printable import shown

_LENGTH_MAX: Final = 256
_HYPHEN: Final = re.compile(r"(\S+)\s+-\s+(\S+)")
_OPERATOR: Final = re.compile(r"(<=|>=|!=|==|=|<|>|\^|~)\s+")
_NAMED: Final = re.compile(r"^([<>=!^~]*)v(?=\d)")
_WILDCARD: Final = re.compile(r"(?<=\.)[xX](?=\.|$)|^[xX]$")


@dataclass(frozen=True, slots=True)
class _Group:
    """Comparisons that must all hold. `early`: one of them names a pre-release."""

    spec: semantic_version.SimpleSpec
    early: bool

    def has(self, version: semantic_version.Version) -> bool:
        return (self.early or not version.prerelease) and self.spec.match(version)


class Range:
    """A range such as `>=1.2.0 <2.0.0`, `1.4.x`, `~1.2 || ^2.0.0-0`.

    Comparisons stand side by side or between commas, alternatives between `||`. As in Flux, a
    pre-release counts only where the comparisons name one themselves: `>=1.0.0-0` takes them in.
    Raises UsageProblem GK7022.
    """

    def __init__(self, text: str) -> None:
        if len(text) > _LENGTH_MAX:
            raise _bad(text, f"it is longer than {_LENGTH_MAX} characters")
        self.text = text
        try:
            self._groups = [_group(part) for part in text.split("||")]
        except ValueError as error:
            raise _bad(text, str(error)) from error

    def best(self, tags: Iterable[str]) -> str | None:
        """The tag with the highest version in the range, its `v` or none; None without one.

        Build metadata has no order: of equal versions the last by name is taken.
        """
        found = [
            (version, tag) for tag in tags if (version := _version(tag)) and self._has(version)
        ]
        return (
            max(found, key=lambda pair: (pair[0].truncate("prerelease"), pair[1]))[1]
            if found
            else None
        )

    def _has(self, version: semantic_version.Version) -> bool:
        return any(group.has(version) for group in self._groups)


def _group(text: str) -> _Group:
    plain = _OPERATOR.sub(r"\1", _HYPHEN.sub(r">=\1 <=\2", text.replace(",", " ").strip()))
    words = [_WILDCARD.sub("*", _NAMED.sub(r"\1", word)) for word in plain.split()]
    if not words:
        raise ValueError("a part of it is empty")
    spec = semantic_version.SimpleSpec(",".join(_bounded(word) for word in words))
    return _Group(spec, any("-" in word for word in words))


def _bounded(word: str) -> str:
    """`^1.2.0-0` and `~1.2.0-0` as two bounds: the library takes the release for the upper one."""
    if not word.startswith(("^", "~")) or "-" not in word:
        return word
    low = semantic_version.Version(word[1:])
    release = low.truncate()
    if word[0] == "^" and release.major:
        high = release.next_major()
    elif word[0] == "~" or release.minor:
        high = release.next_minor()
    else:
        high = release.next_patch()
    return f">={low},<{high}"


def _version(tag: str) -> semantic_version.Version | None:
    try:
        return semantic_version.Version(tag.removeprefix("v"))
    except ValueError:
        return None  # a tag that is no version


def _bad(text: str, why: str) -> UsageProblem:
    message = f"this is no range of versions: {shown(text)}"
    notes = (("why", shown(why)), ("next", "write, for instance, >=1.2.0 <2.0.0, ~1.4 or 1.x"))
    return UsageProblem(Finding(code="GK7022", message=message, notes=notes))
