"""Checks of sync windows: schedules, durations and time zones."""

from __future__ import annotations

from collections.abc import Iterator

from gitkruise.errors import Finding
from gitkruise.gitops.config.dependency_checks import places
from gitkruise.gitops.config.sync_windows import Times
from gitkruise.model.gitops.config import Config, Unit


def impossible_windows(config: Config) -> Iterator[Finding]:
    """GK7034 for every invalid window of all units."""
    for unit in config.units.values():
        yield from bad_windows(unit)


def bad_windows(unit: Unit) -> Iterator[Finding]:
    """GK7034 for each invalid window of the unit."""
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
