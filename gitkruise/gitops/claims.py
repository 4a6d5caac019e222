"""Which unit wants which objects: what two units want is changed by neither."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable

from gitkruise.wire.names import ObjectKey

Wake = Callable[[], None]


class Claims:
    """The objects that each unit's git wants now, shared by all units of a process.

    For each source it is known which of its commits every unit has read: an object that leaves
    one unit and enters another by the same commit is nobody's to delete in between.
    """

    def __init__(self) -> None:
        self._wanted: dict[str, frozenset[ObjectKey]] = {}
        self._listeners: list[Wake] = []
        self._sources: dict[str, str] = {}  # of each unit
        self._read: dict[str, dict[str, str]] = {}  # by source: the commit each unit has read
        self._counts: dict[str, Counter[str]] = {}  # by source: units that have read a commit
        self._waiting: dict[str, dict[str, Wake]] = {}  # by source: units that wait for others
        self._wakes: dict[str, Wake] = {}

    def join(self, unit: str, source: str, wake: Wake) -> None:
        """`unit` reads from `source`. `wake` is called when others want other objects, and when
        one that `unit` waited for has read a commit."""
        self._listeners.append(wake)
        self._wakes[unit], self._sources[unit] = wake, source
        self._read.setdefault(source, {})[unit] = ""
        self._counts.setdefault(source, Counter())[""] += 1

    def set(self, unit: str, keys: Iterable[ObjectKey]) -> None:
        """`unit` wants exactly `keys` from now on."""
        wanted = frozenset(keys)
        if wanted != self._wanted.get(unit):
            self._wanted[unit] = wanted
            for wake in self._listeners:
                wake()

    def others(self, unit: str, keys: frozenset[ObjectKey]) -> frozenset[ObjectKey]:
        """Those of `keys` that a unit beside `unit` wants."""
        found = [keys & wanted for name, wanted in self._wanted.items() if name != unit]
        return frozenset[ObjectKey]().union(*found)

    def read(self, unit: str, commit: str) -> None:
        """All that `unit` wants by `commit` is set."""
        source = self._sources[unit]
        counts, before = self._counts[source], self._read[source][unit]
        counts[before] -= 1
        if not counts[before]:
            del counts[before]
        counts[commit] += 1
        self._read[source][unit] = commit
        for wake in self._waiting.pop(source, {}).values():
            wake()

    def behind(self, unit: str, commit: str) -> str:
        """A unit of the same source that has not read `commit` as its newest; "" for none.

        `unit` is woken when that may have changed.
        """
        source = self._sources[unit]
        counts, units = self._counts[source], self._read[source]
        if counts[commit] + (units[unit] != commit) == len(units):
            return ""
        self._waiting.setdefault(source, {})[unit] = self._wakes[unit]
        return next(name for name, at in units.items() if at != commit and name != unit)
