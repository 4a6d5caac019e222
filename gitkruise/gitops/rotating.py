"""A Secret in use, read again now and then: tokens and keys rotate while a process runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from gitkruise.errors import ApiError, UsageProblem
from gitkruise.gitops.sources import read_secret
from gitkruise.kube.clock import Clock
from gitkruise.kube.transport import Transport
from gitkruise.model.config import Reference

log = logging.getLogger(__name__)
AGAIN_S: Final = 30.0
T = TypeVar("T")
Make = Callable[[Mapping[str, str], str], T]  # of a Secret's texts and its `namespace/name`


class Rotating(Generic[T]):
    """What is made of a Secret, made anew when the Secret is another.

    While it cannot be read, or nothing can be made of it, the last good one is used on.
    """

    def __init__(
        self, where: tuple[Reference, str, Transport], make: Make[T], clock: Clock
    ) -> None:
        """`where` are the reference, the namespace it is made from, and the way to the cluster."""
        self._where, self._make, self._clock = where, make, clock
        self._data: Mapping[str, str] | None = None
        self._value: T | None = None
        self._due = clock.monotonic()

    async def first(self) -> T:
        """The first reading. Raises ApiError for a missing Secret, and what making raises."""
        data, name = await read_secret(*self._where)
        self._value, self._data = self._make(data, name), data
        self._due = self._clock.monotonic() + AGAIN_S
        return self._value

    async def now(self) -> T:
        """What counts now; the Secret is asked for every half a minute at most."""
        assert self._value is not None, "read first"
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + AGAIN_S
            try:
                data, name = await read_secret(*self._where)
                if data != self._data:
                    self._value, self._data = self._make(data, name), data
            except (ApiError, UsageProblem) as error:
                log.warning("the Secret %s is not read again: %s", self._where[0].name, error)
        return self._value
