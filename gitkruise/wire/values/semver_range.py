"""Ranges of semantic versions, written as Flux takes them, over the names of tags."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from semver import Version

from gitkruise.errors import Finding, UsageProblem
from gitkruise.printable import shown

_LENGTH_MAX: Final = 256
_HYPHEN: Final = re.compile(r"(\S+)\s+-\s+(\S+)")
_OPERATOR: Final = re.compile(r"(<=|>=|!=|==|=|<|>|\^|~)\s+")
_COMPARISON: Final = re.compile(r"(<=|>=|!=|==|=|<|>|\^|~|)v?(.+)")
_PARTIAL: Final = re.compile(r"(\d+|[xX*])(?:\.(\d+|[xX*]))?(?:\.[xX*])?")
_FIRST: Final = "0"  # the lowest pre-release: 2.0.0-0 is below every other 2.0.0


@dataclass(frozen=True, slots=True)
class _Interval:
    """Versions from `low` (None: from the first) to `high`, which is not one of them (None: to the
    last); or all others, if `outside`."""

    low: Version | None
    high: Version | None
    outside: bool = False

    def has(self, version: Version) -> bool:
        inside = (self.low is None or self.low <= version) and (
            self.high is None or version < self.high
        )
        return inside != self.outside


@dataclass(frozen=True, slots=True)
class _Group:
    """Comparisons that must all hold. `early`: one of them names a pre-release."""

    intervals: tuple[_Interval, ...]
    early: bool

    def has(self, version: Version) -> bool:
        return (self.early or not version.prerelease) and all(
            interval.has(version) for interval in self.intervals
        )


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
            (version, tag) for tag in tags if (version := version_of(tag)) and self._has(version)
        ]
        return max(found)[1] if found else None

    def _has(self, version: Version) -> bool:
        return any(group.has(version) for group in self._groups)


def _group(text: str) -> _Group:
    plain = _OPERATOR.sub(r"\1", _HYPHEN.sub(r">=\1 <=\2", text.replace(",", " ").strip()))
    words = plain.split()
    if not words:
        raise ValueError("a part of it is empty")
    return _Group(tuple(_interval(word) for word in words), any("-" in word for word in words))


def _interval(word: str) -> _Interval:
    """Versions that one comparison takes. Raises ValueError."""
    found = _COMPARISON.fullmatch(word)
    if found is None:
        raise ValueError(f"{word!r} names no version")
    operator, named = found.groups()
    first, after = _named(named)
    if operator == ">" and after is None:
        raise ValueError(f"no version is above {named}")
    low, high = {
        ">=": (first, None),
        "<": (None, _before(first)),
        ">": (after, None),
        "<=": (None, after),
        "~": (first, _limit(first.bump_minor(), after)),
        "^": (first, _limit(_next_breaking(first), after)),
    }.get(operator, (first, after))
    return _Interval(low, high, outside=operator == "!=")


def _named(text: str) -> tuple[Version, Version | None]:
    """The first version that `1.2.3`, `1.2`, `1.x` or `*` means, and the first one after all
    of them, if there is one."""
    partial = _PARTIAL.fullmatch(text)
    if partial is None:
        exact = Version.parse(text)
        return exact, _after(exact)
    major, minor = (part if part and part.isdecimal() else None for part in partial.groups())
    if major is None:
        return Version(0), None
    first = Version(int(major), int(minor or 0))
    return first, _before(first.bump_major() if minor is None else first.bump_minor())


def _after(exact: Version) -> Version:
    """The lowest version above `exact`: a longer pre-release, or the first of the next patch."""
    if exact.prerelease:
        return exact.replace(prerelease=f"{exact.prerelease}.{_FIRST}", build=None)
    return _before(exact.bump_patch())


def _before(release: Version) -> Version:
    """The lowest version of a release: its pre-releases are no part of what is below it."""
    return release if release.prerelease else release.replace(prerelease=_FIRST)


def _limit(high: Version, after: Version | None) -> Version | None:
    """The upper bound of `~` and `^`: never within the versions that a partial one means."""
    return None if after is None else max(_before(high), after)


def _next_breaking(version: Version) -> Version:
    """The next release that may break users, by the leftmost number that is not 0."""
    if version.major:
        return version.bump_major()
    return version.bump_minor() if version.minor else version.bump_patch()


def version_of(text: str) -> Version | None:
    """Return the one version that a text means; None for a range, or a tag that is no version."""
    try:
        return Version.parse(text.removeprefix("v"))
    except ValueError:
        return None


def _bad(text: str, why: str) -> UsageProblem:
    message = f"version range {shown(text)}: {shown(why)}"
    notes = (("next", "write a range such as >=1.2.0 <2.0.0, ~1.4 or 1.x"),)
    return UsageProblem(Finding(code="GK7022", message=message, notes=notes))
