"""Who wants to hear of what, by the thing itself: news cost what they concern, not what exists."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, TypeVar

from gitkruise.kube.store import Change, Store
from gitkruise.wire.names import ObjectKey

Item = TypeVar("Item", bound=Hashable)


class Interests(Generic[Item]):
    """The set of items each name is interested in, and for each item the names."""

    def __init__(self) -> None:
        self._items: dict[str, frozenset[Item]] = {}
        self._names: dict[Item, tuple[str, ...]] = {}

    def set(self, name: str, items: frozenset[Item]) -> frozenset[Item]:
        """`name` is interested in exactly `items` from now on; what it lost or gained."""
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
        """The names that are interested in `item`."""
        return self._names.get(item, ())

    def in_any(self, items: Iterable[Item]) -> frozenset[str]:
        """The names that are interested in one of `items` at least."""
        return frozenset(name for item in items for name in self._names.get(item, ()))


class Hearing:
    """Wakes those whose live objects changed, or objects that theirs own."""

    def __init__(self, store: Store) -> None:
        self._keys: Interests[ObjectKey] = Interests()
        self._owners: Interests[str] = Interests()
        self._wakes: dict[str, Callable[[], None]] = {}
        store.subscribe(self._hear)

    def join(self, name: str, wake: Callable[[], None]) -> Callable[[], None]:
        """Call `wake` when something changed for `name`. Returns what ends that."""
        self._wakes[name] = wake

        def leave() -> None:
            self.watch(name, frozenset(), frozenset())
            self._wakes.pop(name, None)

        return leave

    def watch(self, name: str, keys: frozenset[ObjectKey], owners: frozenset[str]) -> None:
        """`name` is concerned by `keys`, and by what the uids `owners` own."""
        self._keys.set(name, keys)
        self._owners.set(name, owners)

    def _hear(self, change: Change) -> None:
        seen = change.after or change.before
        assert seen is not None
        for name in {*self._keys.of(change.key), *self._owners.in_any(seen.owners)}:
            if name in self._wakes:
                self._wakes[name]()
