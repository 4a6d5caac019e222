"""What was just made of something, for the next that is like it: pods of one wave move alike."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Alike:
    """The last answer to each question. What it was made from, and the answer, never change."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[Any, ...], Any]] = {}

    def made(self, what: Hashable, make: Callable[..., T], *given: Any) -> T:
        """`make(*given)`, or what it made the last time `what` was asked, of equals."""
        last = self._last.get(what)
        if last is not None and last[0] == given:
            return last[1]  # type: ignore[no-any-return]  # `what` has one kind of answer
        made = make(*given)
        self._last[what] = given, made
        return made
