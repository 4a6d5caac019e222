"""A Secret in use, re-read now and then: tokens and keys rotate while a process runs."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, Generic, TypeVar

from gitkruise.errors import ApiError, UsageProblem
from gitkruise.gitops.source.repositories import read_secret
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.config import Reference
from gitkruise.wire.primitives.log_line import log_line

log = logging.getLogger(__name__)
AGAIN_S: Final = 30.0
T = TypeVar("T")
Make = Callable[[Mapping[str, str], str], T]  # of a Secret's texts and its `namespace/name`


class Rotating(Generic[T]):
    """A value built from a Secret, rebuilt when the Secret changes.

    While the Secret cannot be read, or no value can be built from it, the last good value stays in
    use.
    """

    def __init__(
        self,
        reference: Reference,
        make: Make[T],
        clock: Clock,
        *,
        namespace: str,
        transport: Transport,
    ) -> None:
        """`reference` is resolved in `namespace`."""
        self._reference, self._namespace = reference, namespace
        self._transport, self._make, self._clock = transport, make, clock
        self._data: Mapping[str, str] | None = None
        self._value: T | None = None
        self._due = clock.monotonic()

    async def first(self) -> T:
        """Read the Secret for the first time. Raises ApiError for a missing one, and what `make`
        raises."""
        data, name = await read_secret(self._reference, self._namespace, self._transport)
        self._value, self._data = self._make(data, name), data
        self._due = self._clock.monotonic() + AGAIN_S
        return self._value

    async def now(self) -> T:
        """Return the current value; the Secret is read every half minute at most."""
        assert self._value is not None, "read first"
        if self._clock.monotonic() >= self._due:
            self._due = self._clock.monotonic() + AGAIN_S
            try:
                data, name = await read_secret(self._reference, self._namespace, self._transport)
                if data != self._data:
                    self._value, self._data = self._make(data, name), data
            except (ApiError, UsageProblem) as error:
                log.warning(log_line("secret-not-read", secret=self._reference.name, error=error))
        return self._value
