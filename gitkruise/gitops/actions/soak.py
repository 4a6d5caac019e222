"""Begin of a soak: from the cluster and this process, never from records.

A user who may push the status branch may write any time there. A rollout that this process saw
arrive soaks from then on. After a start it soaks from the last write of its spec or from when the
last of its pods became available, whichever is later. If the cluster does not know when the spec
was written, the soak starts over.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from gitkruise.kube.cache.store import CachedObject
from gitkruise.kube.system.clock import Clock
from gitkruise.model.gitops.record import Rollout
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.wire.primitives.paths import get

RESTARTED: Final = "the soak counts from this start: no managedFields say when the spec was written"
_Mark = tuple[str, str, datetime | None]


@dataclass(frozen=True, slots=True)
class Soaking:
    """Time since which a rollout is healthy, and a note about it."""

    since: datetime
    note: str = ""


class Soak:
    """Memory of one promotion: what stood well when this process looked."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._saw_moving = False
        self._known: tuple[_Mark, Soaking] | None = None

    def moves(self) -> None:
        """The rollout does not stand well now."""
        self._saw_moving, self._known = True, None

    def since(self, seen: CachedObject, rollout: Rollout, pods: Iterable[PodFacts]) -> Soaking:
        """Return the soak of `rollout`, which is healthy now, without a break."""
        mark = (seen.uid, rollout.update_revision, seen.spec_written)
        listed = tuple(pods)
        if self._known is None or self._known[0] != mark:
            self._known = (mark, self._begun(seen, listed))
            self._saw_moving = True
        known = self._known[1]
        revision = rollout.update_revision.rpartition("-")[2]
        ready = [p.ready_since for p in listed if p.ready_since and p.short_revision == revision]
        return Soaking(max([known.since, *ready]), known.note)

    def _begun(self, seen: CachedObject, pods: tuple[PodFacts, ...]) -> Soaking:
        now = self._clock.now()
        if self._saw_moving:
            return Soaking(now)
        if seen.spec_written is None:
            return Soaking(now, RESTARTED)
        rest = timedelta(seconds=get(seen.read(), "spec", "minReadySeconds", default=0))
        ready = [pod.ready_since + rest for pod in pods if pod.ready_since]
        return Soaking(max([seen.spec_written, *ready]))
