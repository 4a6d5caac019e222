"""Back-off of keys that failed."""

from __future__ import annotations

from collections.abc import Hashable
from datetime import datetime, timedelta
from typing import Final, Generic, TypeVar

from gitkruise.errors import Retry
from gitkruise.kube.client.limits import pause_s

K = TypeVar("K", bound=Hashable)
CAP_S: Final = 300.0
# By what the error says about trying again: seconds before the first retry.
FIRST_S: Final = {Retry.REPLAN: 0.01, Retry.RELIST: 0.1, Retry.BACKOFF: 0.2, Retry.NEVER: 5.0}


class FailureBackoff(Generic[K]):
    """Failures in a row by key; `next` counts one more, `forget` ends the row.

    Even permanent errors (Retry.NEVER: a refused pod, a full quota) are tried again, slowly: no
    event reports that a quota has room. Pauses double up to five minutes, with jitter derived from
    seed, key and count.
    """

    def __init__(self, *, seed: int) -> None:
        self._seed = seed
        self._failures: dict[K, int] = {}

    def next(self, key: K, now: datetime, retry: Retry) -> datetime:
        """Return when to try `key` again after one more failure of this sort."""
        count = self._failures[key] = self._failures.get(key, 0) + 1
        seed = f"{self._seed}/{key}"
        pause = pause_s(count, first_s=FIRST_S[retry], cap_s=CAP_S, seed=seed)
        return now + timedelta(seconds=pause)

    def forget(self, key: K) -> None:
        self._failures.pop(key, None)
