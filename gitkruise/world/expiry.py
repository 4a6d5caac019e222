"""Events do not stay for ever: the API server forgets them after an hour (its --event-ttl)."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Final

from gitkruise.wire.names import GroupKind, key_of
from gitkruise.wire.times import parse_time
from gitkruise.world.cluster import World
from gitkruise.world.commit import remove

EVENT_TTL: Final = timedelta(hours=1)
EVENT_KINDS: Final = (GroupKind("", "Event"), GroupKind("events.k8s.io", "Event"))


class EventExpiry:
    """Removes events `ttl` after their last change; one for one World."""

    def __init__(self, ttl: timedelta = EVENT_TTL) -> None:
        self.ttl = ttl
        self._look_at: datetime | None = None

    def run(self, world: World, now: datetime) -> datetime | None:
        """Remove what is due; the next due instant or None."""
        if self._look_at is not None and now < self._look_at:
            return self._look_at
        self._look_at = min(
            (end for kind in EVENT_KINDS if (end := self._sweep(world, kind, now))), default=None
        )
        return self._look_at

    def _sweep(self, world: World, group_kind: GroupKind, now: datetime) -> datetime | None:
        """Remove the expired events of a kind; when the next one of them expires."""
        kind = world.catalog.stored(group_kind)
        soonest: datetime | None = None
        for event in world.objects(group_kind) if kind else ():
            assert kind is not None
            born = parse_time(event.get("lastTimestamp") or event["metadata"]["creationTimestamp"])
            assert born is not None
            end = born + self.ttl
            if end <= now:
                remove(world.state, kind, key_of(event))
            elif soonest is None or end < soonest:
                soonest = end
        return soonest
