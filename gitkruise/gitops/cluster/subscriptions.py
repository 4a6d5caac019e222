"""Subscriptions indexed by object, so that an event costs only its subscribers."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from gitkruise.kube.cache.store import InformerCache, StoreChange
from gitkruise.wire.primitives.names import ObjectKey

Item = TypeVar("Item", bound=Hashable)


class Interests(Generic[Item]):
    """The items of each name, and for each item the names."""

    def __init__(self) -> None:
        self._items: dict[str, frozenset[Item]] = {}
        self._names: dict[Item, tuple[str, ...]] = {}

    def set(self, name: str, items: frozenset[Item]) -> frozenset[Item]:
        """Replace the items of `name`; return those that it lost or gained."""
        before = self._items.get(name, frozenset())
        if items == before:
            return frozenset()
        for item in before - items:
            left = tuple(other for other in self._names[item] if other != name)
            if left:
                self._names[item] = left
            else:
                del self._names[item]
        for item in items - before:
            self._names[item] = (*self._names.get(item, ()), name)
        self._items[name] = items
        return before ^ items

    def of(self, item: Item) -> tuple[str, ...]:
        """Return the names subscribed to `item`."""
        return self._names.get(item, ())

    def in_any(self, items: Iterable[Item]) -> frozenset[str]:
        """Return the names subscribed to at least one of `items`."""
        return frozenset(name for item in items for name in self._names.get(item, ()))


class WakeOnChange:
    """Wakes the subscribers of a changed object, and those of its owners."""

    def __init__(self, store: InformerCache) -> None:
        self._keys: Interests[ObjectKey] = Interests()
        self._owners: Interests[str] = Interests()
        self._wakes: dict[str, Callable[[], None]] = {}
        store.subscribe(self._hear)

    def join(self, name: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when an object of `name` changed. Returns the function that ends this."""
        self._wakes[name] = wake

        def leave() -> None:
            self.watch(name, frozenset(), frozenset())
            self._wakes.pop(name, None)

        return leave

    def watch(self, name: str, keys: frozenset[ObjectKey], owners: frozenset[str]) -> None:
        """Subscribe `name` to `keys`, and to objects owned by the uids `owners`."""
        self._keys.set(name, keys)
        self._owners.set(name, owners)

    def _hear(self, change: StoreChange) -> None:
        seen = change.after or change.before
        assert seen is not None
        for name in {*self._keys.of(change.key), *self._owners.in_any(seen.owners)}:
            if name in self._wakes:
                self._wakes[name]()
