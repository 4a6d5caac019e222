"""Expiry of Events: the API server deletes them after an hour (its --event-ttl)."""

from __future__ import annotations

from contextlib import suppress
from datetime import datetime, timedelta
from typing import Final

from gitkruise.wire.primitives.names import GroupKind, Obj, key_of
from gitkruise.wire.primitives.times import parse_time
from gitkruise.world.api.cluster import World
from gitkruise.world.controllers.object_backoff import ObjectBackoff, Report, earliest
from gitkruise.world.store.commit import remove

EVENT_TTL: Final = timedelta(hours=1)
EVENT_KINDS: Final = (GroupKind("", "Event"), GroupKind("events.k8s.io", "Event"))


class EventExpiry:
    """Removes events `ttl` after their last change; one for one World."""

    def __init__(self, ttl: timedelta = EVENT_TTL, report: Report | None = None) -> None:
        self.ttl = ttl
        self._backoff = ObjectBackoff(report)
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
        if kind is None:
            return None
        ends: list[datetime] = []

        def judge(event: Obj, now: datetime) -> None:
            end = _born(event) + self.ttl
            if end <= now:
                remove(world.state, kind, key_of(event))
            else:
                ends.append(end)

        for event in world.objects(group_kind):
            self._backoff.attempt(key_of(event), now, judge, event)
        return earliest(*ends, self._backoff.next())


def _born(event: Obj) -> datetime:
    """Return the later of creation and last occurrence: a client may report a distant past."""
    times: list[datetime] = []
    for text in (event.get("lastTimestamp"), event["metadata"]["creationTimestamp"]):
        with suppress(ValueError):
            times += [at] if (at := parse_time(text or "")) is not None else []
    if not times:
        raise ValueError(f"{key_of(event)} has no time of creation")
    return max(times)
