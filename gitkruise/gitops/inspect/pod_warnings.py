"""Warnings of pods that are not available: kubelet and others give some causes in Events alone."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.errors import Forbidden
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.gitops.inspect.explain import MOVING
from gitkruise.kube.client.discovery import each
from gitkruise.kube.client.events import EVENTS, last_seen
from gitkruise.kube.client.transport import Transport
from gitkruise.planner.progress.failing_pods import unready, unscheduled
from gitkruise.printable import visible
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.times import format_duration, parse_time

_SHOWN: Final = 3  # causes
_OF_PODS: Final = "involvedObject.kind=Pod,type=Warning"


@dataclass(frozen=True, slots=True)
class PodWarnings:
    """Sentences, one for each reason, the newest first. `unread` says why there are none."""

    texts: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


async def pod_warnings(transport: Transport, managed: Managed, now: datetime) -> PodWarnings:
    """Return the newest warnings of the pods of a rollout whose status does not give the cause:
    an unscheduled pod and one that cannot start say it themselves. Raises ApiError but Forbidden.
    """
    r = managed.rollout
    if r is None or r.state not in MOVING or r.failing or r.hindered:
        return PodWarnings()
    dark = [p for p in managed.pods if p.active and unready(p) and not unscheduled(p)]
    if not dark:
        return PodWarnings()
    space = managed.key.namespace
    try:
        listed = each(transport, EVENTS, namespace=space, field_selector=_OF_PODS)
        events = [event async for event in listed]
    except Forbidden:
        return PodWarnings(unread=("this account may not list events",))
    return PodWarnings(texts=_newest(events, {p.uid for p in dark}, now))


def _newest(events: Sequence[Obj], uids: Collection[str], now: datetime) -> tuple[str, ...]:
    mine = [e for e in events if get(e, "involvedObject", "uid", default="") in uids]
    mine.sort(key=lambda event: _last(event, now), reverse=True)
    by_reason: dict[str, Obj] = {}
    for event in mine:
        by_reason.setdefault(str(event.get("reason", "")), event)
    return tuple(_sentence(event, now) for event in [*by_reason.values()][:_SHOWN])


def _sentence(event: Obj, now: datetime) -> str:
    pod, since = event["involvedObject"].get("name", ""), now - _last(event, now)
    said = visible(" ".join(str(event.get("message", "")).split()))
    return f"{pod}: {event.get('reason', '')} {format_duration(since)} ago: {said}"


def _last(event: Obj, now: datetime) -> datetime:
    return parse_time(last_seen(event)) or now
