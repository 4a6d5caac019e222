"""Which unit wants which objects: what two units want is changed by neither."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from gitkruise.wire.names import ObjectKey


class Claims:
    """The objects that each unit's git wants now, shared by all units of a process."""

    def __init__(self) -> None:
        self._wanted: dict[str, frozenset[ObjectKey]] = {}
        self._listeners: list[Callable[[], None]] = []

    def listen(self, wake: Callable[[], None]) -> None:
        """Call `wake` whenever some unit wants other objects than before."""
        self._listeners.append(wake)

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
