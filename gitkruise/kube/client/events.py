"""Kubernetes events of controllers: repeats counted, floods combined, never in the way."""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.errors import AlreadyExists, ApiError, NotFound
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.planning.plan import Event
from gitkruise.printable import visible
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey, join_api_version
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef, merge_request
from gitkruise.wire.primitives.times import format_time

EVENTS: Final = ResourceRef("", "v1", "events")
REPEAT_WITHIN: Final = timedelta(minutes=5)  # the same again: counted, no new Event
SIMILAR_WITHIN: Final = timedelta(minutes=10)
SIMILAR_MAX: Final = 10  # distinct messages of one reason before they are combined
BURST, REFILL_S = 25.0, 300.0  # events of one object: so many in a row, then one per REFILL_S
REMEMBERED_MAX: Final = 4096
PENDING_MAX: Final = 1000
MESSAGE_MAX: Final = 1024  # characters, as events.k8s.io allows
COMBINED: Final = "(combined from similar events): "
log = logging.getLogger(__name__)


def last_seen(event: Obj) -> str:
    """Return when an Event happened last: core/v1 and events.k8s.io say it in different fields."""
    series: str = get(event, "series", "lastObservedTime", default="")
    stated = series or event.get("lastTimestamp") or event.get("eventTime")
    return str(stated or event["metadata"].get("creationTimestamp") or "")


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """The object an event is about, in the API version its controller speaks."""

    key: ObjectKey
    version: str
    uid: str
    resource_version: str = ""
    field_path: str = ""  # the part that is meant: spec.containers{name}


def container_subject(pod: ObjectKey, uid: str, container: str) -> Subject:
    """Return the subject of an event about one container of a pod."""
    return Subject(key=pod, version="v1", uid=uid, field_path=f"spec.containers{{{container}}}")


@dataclass(slots=True)
class _Series:
    """One Event object: what it says and how often that happened. Changed in place."""

    name: str
    subject: Subject
    type: str
    reason: str
    message: str
    component: str
    first: datetime
    last: datetime
    count: int = 0
    stored: bool = False


@dataclass(slots=True)
class _Flood:
    """Token bucket of the events of one object, or of one of its reasons."""

    since: datetime
    tokens: float = BURST
    messages: set[str] = field(default_factory=set)


class Correlator:
    """Assign events to Event objects; no I/O. Follows client-go's event correlator.

    Same object, type, reason and message within five minutes: one Event, counted. More than ten
    different messages of one reason within ten minutes: one Event with a combined message. More
    than 25 in a row from one object: dropped until its allowance refills.
    """

    def __init__(self) -> None:
        self._series: OrderedDict[tuple[str, ...], _Series] = OrderedDict()
        self._similar: OrderedDict[tuple[str, ...], _Flood] = OrderedDict()
        self._allowance: OrderedDict[str, _Flood] = OrderedDict()

    def take(self, subject: Subject, event: Event, component: str, now: datetime) -> _Series | None:
        """The series that now counts this event; None when the object has said too much."""
        if not self._allowed(f"{component}/{subject.uid}", now):
            return None
        about = (component, subject.uid, event.type, event.reason)
        message = _cut(visible(event.message))
        combined = self._is_flood(about, message, now)
        text = _cut(COMBINED + message) if combined else message
        key = (*about, COMBINED if combined else message)
        series = self._series.get(key)
        if series is None or now - series.last > REPEAT_WITHIN:
            series = _Series(
                name=_name(subject, key, now),
                subject=subject,
                type=event.type,
                reason=event.reason,
                message=text,
                component=component,
                first=now,
                last=now,
            )
        series.count, series.last, series.message = series.count + 1, now, text
        _remember(self._series, key, series)
        return series

    def _allowed(self, who: str, now: datetime) -> bool:
        flood = self._allowance.get(who) or _Flood(now)
        gained = max((now - flood.since).total_seconds(), 0.0) / REFILL_S  # the clock may go back
        flood.tokens, flood.since = min(flood.tokens + gained, BURST), now
        _remember(self._allowance, who, flood)
        if flood.tokens < 1.0:
            return False
        flood.tokens -= 1.0
        return True

    def _is_flood(self, about: tuple[str, ...], message: str, now: datetime) -> bool:
        flood = self._similar.get(about)
        if flood is None or now - flood.since > SIMILAR_WITHIN:
            flood = _Flood(now)
        flood.messages.add(message)
        _remember(self._similar, about, flood)
        if len(flood.messages) <= SIMILAR_MAX:
            return False
        flood.messages.discard(message)  # keep the set small: it is full already
        flood.since = now
        return True


class Recorder:
    """Takes events without waiting and writes them in the background; a failure loses the event."""

    def __init__(self, transport: Transport, clock: Clock) -> None:
        self.dropped = 0
        self._transport, self._clock = transport, clock
        self._correlator = Correlator()
        self._pending: OrderedDict[str, _Series] = OrderedDict()
        self._news = asyncio.Event()

    def record(self, subject: Subject, event: Event, component: str) -> None:
        series = self._correlator.take(subject, event, component, self._clock.now())
        if series is None:
            self.dropped += 1
            return
        self._pending[series.name] = series
        if len(self._pending) > PENDING_MAX:
            self._pending.popitem(last=False)
            self.dropped += 1
        self._news.set()

    async def run(self) -> None:
        """Write events as they come, until cancelled."""
        while True:
            await self._news.wait()
            await self.flush()

    async def flush(self) -> None:
        """Write what waits now."""
        self._news.clear()
        while self._pending:
            _, series = self._pending.popitem(last=False)
            try:
                await self._write(series)
            except ApiError as error:
                self.dropped += 1
                log.info(
                    log_line(
                        "event-lost", reason=series.reason, object=series.subject.key, error=error
                    )
                )

    async def _write(self, series: _Series) -> None:
        namespace = series.subject.key.namespace or "default"
        if series.stored:
            patch = {
                "count": series.count,
                "lastTimestamp": format_time(series.last),
                "message": series.message,
            }
            try:
                await self._transport.send(
                    merge_request(EVENTS, series.name, patch, namespace=namespace)
                )
            except NotFound:
                series.stored = False  # it has expired on the server
            else:
                return
        try:
            await self._transport.send(
                ApiRequest(verb="create", resource=EVENTS, namespace=namespace, body=_body(series))
            )
        except AlreadyExists:
            log.info(log_line("event-exists", name=series.name))
        series.stored = True


def _body(series: _Series) -> dict[str, Any]:
    subject, key = series.subject, series.subject.key
    involved = {
        "apiVersion": join_api_version(key.group, subject.version),
        "kind": key.kind,
        "namespace": key.namespace,
        "name": key.name,
        "uid": subject.uid,
        "resourceVersion": subject.resource_version,
        "fieldPath": subject.field_path,
    }
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": series.name, "namespace": key.namespace or "default"},
        "involvedObject": {name: value for name, value in involved.items() if value},
        "type": series.type,
        "reason": series.reason,
        "message": series.message,
        "source": {"component": series.component},
        "reportingComponent": series.component,
        "reportingInstance": "",
        "firstTimestamp": format_time(series.first),
        "lastTimestamp": format_time(series.last),
        "count": series.count,
    }


def _name(subject: Subject, key: tuple[str, ...], now: datetime) -> str:
    drawn = "\x00".join((*key, now.isoformat())).encode()
    return f"{subject.key.name[:230]}.{hashlib.blake2b(drawn, digest_size=8).hexdigest()}"


def _cut(text: str) -> str:
    return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1] + "…"


def _remember(known: OrderedDict[Any, Any], key: Any, value: Any) -> None:
    known[key] = value
    known.move_to_end(key)
    if len(known) > REMEMBERED_MAX:
        known.popitem(last=False)
