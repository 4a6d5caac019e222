"""Checks of sync windows: schedules, durations and time zones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gitkruise.errors import Finding
from gitkruise.gitops.config.dependency_checks import places
from gitkruise.gitops.config.sync_windows import Times
from gitkruise.model.gitops.config import Config, Unit

WINDOWS_MAX: Final = 50


def impossible_windows(config: Config) -> Iterator[Finding]:
    """GK7034 for every invalid window of all units."""
    for unit in config.units.values():
        yield from bad_windows(unit)


def bad_windows(unit: Unit) -> Iterator[Finding]:
    """GK7034 for each invalid window of the unit."""
    if len(unit.spec.windows) > WINDOWS_MAX:
        yield Finding(
            code="GK7034",
            message=f"Unit {unit.id}: spec.windows: more than {WINDOWS_MAX} windows",
            places=places(unit, "windows"),
            notes=(
                ("why", "each is looked through for the next time at which all of them let it in"),
                ("next", "join windows: a schedule takes lists and ranges, such as 0 18 * * 1-5"),
            ),
        )
        return
    for index, window in enumerate(unit.spec.windows):
        try:
            Times.of(window)
        except ValueError as error:
            yield Finding(
                code="GK7034",
                message=f"Unit {unit.id}: spec.windows.{index}: {error}",
                places=places(unit, "windows", index),
                notes=(
                    ("why", "a window that never comes would guard nothing, or stop everything"),
                    (
                        "next",
                        'write schedule: "0 18 * * 5", duration: 62h, timeZone: Europe/Berlin',
                    ),
                ),
            )
