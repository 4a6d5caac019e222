"""Memo of the last result per question: pods of one wave need the same results in a row."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Any, TypeVar

T = TypeVar("T")


class Memo:
    """The last result per question. Arguments and results are never mutated."""

    __slots__ = ("_last",)

    def __init__(self) -> None:
        self._last: dict[Hashable, tuple[tuple[Any, ...], Any]] = {}

    def get(self, what: Hashable, make: Callable[..., T], *given: Any) -> T:
        """Return `make(*given)`, or the last result for `what` if its arguments were equal."""
        last = self._last.get(what)
        if last is not None and last[0] == given:
            return last[1]  # type: ignore[no-any-return]  # `what` has one kind of answer
        made = make(*given)
        self._last[what] = given, made
        return made
