"""Subscriptions: callbacks by subscriber and topic, so that news costs only those concerned.

Requests for a round of a loop are callbacks, too: they are called once, at its end.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from typing import Generic, ParamSpec, TypeVar

Item = TypeVar("Item", bound=Hashable)
P = ParamSpec("P")


class Interests(Generic[Item]):
    """The items of each name, and for each item the names."""

    def __init__(self) -> None:
        self._items: dict[Hashable, frozenset[Item]] = {}
        self._names: dict[Item, dict[Hashable, None]] = {}

    def set(self, name: Hashable, items: frozenset[Item]) -> frozenset[Item]:
        """Replace the items of `name`; return those that it lost or gained."""
        before = self._items.get(name, frozenset())
        if items == before:
            return frozenset()
        for item in before - items:
            names = self._names[item]
            del names[name]
            if not names:
                del self._names[item]
        for item in items - before:
            self._names.setdefault(item, {})[name] = None
        if items:
            self._items[name] = items
        else:
            del self._items[name]
        return before ^ items

    def add(self, name: Hashable, items: Iterable[Item]) -> None:
        """Add to the items of `name`."""
        self.set(name, self._items.get(name, frozenset()) | frozenset(items))

    def of(self, item: Item) -> tuple[Hashable, ...]:
        """Return the names of `item`."""
        return tuple(self._names.get(item, ()))

    def in_any(self, items: Iterable[Item]) -> dict[Hashable, None]:
        """Return the names of at least one of `items`."""
        found: dict[Hashable, None] = {}
        for item in items:
            if names := self._names.get(item):
                found |= names
        return found


class Subscriptions(Generic[Item, P]):
    """Callbacks of subscribers, and the topics of each one.

    A callback must neither block nor raise. It may subscribe and end subscriptions, its own too.
    """

    def __init__(self) -> None:
        self._calls: dict[Hashable, Callable[P, None]] = {}
        self._topics: Interests[Item] = Interests()
        self._of_all: dict[Hashable, None] = {}

    def listen(self, call: Callable[P, None]) -> Callable[[], None]:
        """Call `call` for all news. Returns what ends it."""
        self._of_all[call] = None
        return self.join(call, call)

    def join(
        self, by: Hashable, call: Callable[P, None], topics: Iterable[Item] = ()
    ) -> Callable[[], None]:
        """Call `call` for news of `topics` too, in place of an earlier callback of `by`.

        Returns what ends the subscription.
        """
        self._calls[by] = call
        self._topics.add(by, topics)
        return lambda: self.leave(by)

    def watch(self, by: Hashable, topics: Iterable[Item]) -> None:
        """Replace the topics of `by`, which may join later."""
        self._topics.set(by, frozenset(topics))

    def leave(self, by: Hashable) -> None:
        """End the subscription of `by`, if there is one."""
        self._calls.pop(by, None)
        self._of_all.pop(by, None)
        self._topics.set(by, frozenset())

    def calls(
        self, topics: Iterable[Item] = (), *, but: Hashable = None
    ) -> list[Callable[P, None]]:
        """Return the callbacks for news of `topics` and of everything, without that of `but`."""
        names = self._of_all | self._topics.in_any(topics)
        return [self._calls[by] for by in names if by in self._calls and by != but]

    def notify(self, topics: Iterable[Item], *args: P.args, **kwargs: P.kwargs) -> None:
        """Call the subscribers of `topics`."""
        for call in self.calls(topics):
            call(*args, **kwargs)

    def notify_all(self, *args: P.args, **kwargs: P.kwargs) -> None:
        """Call every subscriber."""
        for call in list(self._calls.values()):
            call(*args, **kwargs)

    def of(self, by: Hashable) -> Callable[P, None] | None:
        """Return the callback of `by`."""
        return self._calls.get(by)


class RoundRequests:
    """Callbacks for the end of a round that begins after the request.

    A round that does not end leaves its callbacks to the next one.
    """

    def __init__(self) -> None:
        self._asked: list[Callable[[], None]] = []
        self._taken: list[Callable[[], None]] = []  # by the round that runs

    def ask(self, done: Callable[[], None]) -> None:
        """Call `done` at the end of the next round to begin."""
        self._asked.append(done)

    def began(self) -> None:
        """Take note that a round begins."""
        self._taken += self._asked
        self._asked = []

    def ended(self) -> None:
        """Take note that the round ended, successfully or not."""
        taken, self._taken = self._taken, []
        for done in taken:
            done()
