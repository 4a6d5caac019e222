"""Back-off for single objects that fail in a controller of the cluster; the others continue.

An actor calls `attempt` for each object it deals with and `retry` whenever it runs. Without a
`report` (forecasts, tests) exceptions go through: they are bugs, and nothing is to hide them. With
one the object rests, each time twice as long, and is then tried again.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.wire.primitives.backoff import backoff

Report = Callable[[Hashable, Exception], None]
FIRST, LONGEST = timedelta(seconds=5), timedelta(minutes=5)  # rests, doubled each time
OBJECTS_MAX: Final = 100_000  # that rest at a time; the rests of more begin again


@dataclass(slots=True)
class _Retry:
    call: Callable[..., None]
    given: tuple[Any, ...]
    until: datetime
    failures: int


class ObjectBackoff:
    """The objects of one actor that rest."""

    def __init__(self, report: Report | None = None) -> None:
        self._report = report
        self._rests: dict[Hashable, _Retry] = {}

    def attempt(self, key: Hashable, now: datetime, call: Callable[..., None], *given: Any) -> None:
        """Call `call` with `given` and the time; if `key` rests, when the rest is over.

        It must read again what it acts on.
        """
        if self._report is None:
            call(*given, now)
            return
        rest = self._rests.get(key)
        if rest is not None and now < rest.until:
            rest.call, rest.given = call, given
            return
        try:
            call(*given, now)
        except Exception as error:  # a bug met with this object must not stop the others
            failures = rest.failures + 1 if rest is not None else 1
            pause = backoff(failures, first=FIRST, cap=LONGEST)
            if len(self._rests) >= OBJECTS_MAX:
                self._rests.clear()
            self._rests[key] = _Retry(call, given, now + pause, failures)
            self._report(key, error)
        else:
            self._rests.pop(key, None)

    def retry(self, now: datetime) -> None:
        """Try those again whose rest is over."""
        for key, rest in [(k, r) for k, r in self._rests.items() if r.until <= now]:
            self.attempt(key, now, rest.call, *rest.given)

    def next(self) -> datetime | None:
        """Return the instant of the earliest retry."""
        return min((rest.until for rest in self._rests.values()), default=None)


def earliest(*times: datetime | None) -> datetime | None:
    """The first of these instants, None for none at all."""
    return min((at for at in times if at is not None), default=None)
