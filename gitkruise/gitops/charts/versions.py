"""Versions of a chart: the one that a unit means, and the errors for none."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from semver import Version

from gitkruise.errors import Finding, InvalidManifests
from gitkruise.gitops.charts.cache import WantedChart
from gitkruise.printable import shown
from gitkruise.wire.values.semver_range import Range, version_of

_LISTED: Final = 5  # versions, of those there are


@dataclass(frozen=True, slots=True, kw_only=True)
class ChartVersion:
    """A version of a chart: what its repository says about the archive."""

    version: str
    digest: str = ""  # SHA-256 in hex; "" where the index has none
    urls: tuple[str, ...] = ()


def chosen(wanted: WantedChart, versions: Iterable[ChartVersion]) -> ChartVersion:
    """Return the version that a unit means, for a range the highest one.

    Raises InvalidManifests GK3414 where there is none.
    """
    known = {
        one.version: one for one in reversed([*versions]) if version_of(one.version) is not None
    }
    only = version_of(wanted.version)
    if only is None:
        best = Range(wanted.version).best(known)
    else:
        same = [
            text for text in known if text.removeprefix("v") == wanted.version.removeprefix("v")
        ]
        best = min(same, key=lambda text: text != wanted.version, default=None)
    if best is None:
        raise _no_version(wanted, known)
    return known[best]


def no_chart(wanted: WantedChart, near: Sequence[str]) -> InvalidManifests:
    """Return GK3414 for a chart that its repository does not have."""
    named = ", ".join(shown(name, 80) for name in near)
    return _wrong(
        f"there is no chart {shown(wanted.name)} in {shown(wanted.repository)}",
        ("close to it", named or "no chart"),
        "correct render.helm.chart",
    )


def _no_version(wanted: WantedChart, known: Iterable[str]) -> InvalidManifests:
    newest = sorted(known, key=lambda text: version_of(text) or Version(0), reverse=True)[:_LISTED]
    named = ", ".join(shown(text, 80) for text in newest)
    return _wrong(
        f"chart {shown(wanted.name)} of {shown(wanted.repository)} has no version"
        f" {shown(wanted.version)}",
        ("newest", named or "it has no version at all"),
        "correct render.helm.version; a pre-release only counts where the range names one",
    )


def _wrong(message: str, there: tuple[str, str], following: str) -> InvalidManifests:
    return InvalidManifests(
        Finding(code="GK3414", message=message, notes=(there, ("next", following)))
    )
