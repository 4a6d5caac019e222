"""Causes beyond the status of a pod: warnings that others give in Events alone, and nodes that do
not answer, whose pods keep the status that they had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from gitkruise.errors import Forbidden, NotFound
from gitkruise.gitops.inspect.cluster_view import Managed
from gitkruise.gitops.inspect.explain import MOVING
from gitkruise.kube.client.discovery import each
from gitkruise.kube.client.events import EVENTS, last_seen
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.unit_state import State
from gitkruise.model.workloads.conditions import find
from gitkruise.model.workloads.labels import DAEMONSET, STATEFULSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.progress.failing_pods import unready, unscheduled
from gitkruise.planner.sync.hooks import JOB
from gitkruise.printable import many, shown, visible
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import ApiRequest, ResourceRef
from gitkruise.wire.primitives.times import format_duration, parse_time

_SHOWN: Final = 3  # causes
_OF_PODS: Final = "involvedObject.kind=Pod,type=Warning"
_REFUSED: Final = "involvedObject.uid={},reason=FailedCreate"
_SILENT: Final = frozenset({STATEFULSET, DAEMONSET, JOB})  # no condition has a refusal of a pod
_NODES: Final = ResourceRef("", "v1", "nodes")
_LOOKED_AT: Final = 10  # nodes, those of the most such pods


@dataclass(frozen=True, slots=True)
class PodWarnings:
    """Sentences, one for each reason, the newest first; those about the `lost` nodes before them.
    `unread` says why there are none."""

    texts: tuple[str, ...] = ()
    lost: tuple[str, ...] = ()
    unread: tuple[str, ...] = ()


async def pod_warnings(transport: Transport, managed: Managed, now: datetime) -> PodWarnings:
    """Return what the pods of an object do not say themselves. Raises ApiError but Forbidden."""
    lost, unread = await _lost_nodes(transport, managed.pods, now)
    events = await _of_events(transport, managed, now)
    return PodWarnings((*lost.values(), *events.texts), (*lost,), (*unread, *events.unread))


async def refused_pods(transport: Transport, managed: Managed, now: datetime) -> Managed:
    """Return a workload that lacks pods with the API server's refusal to create one: the
    controllers of some kinds give it in Events alone. Raises ApiError but Forbidden."""
    if managed.key.group_kind not in _SILENT or not _lacks_pods(managed):
        return managed
    asked = _REFUSED.format(managed.obj["metadata"]["uid"])
    try:
        listed = each(transport, EVENTS, namespace=managed.key.namespace, field_selector=asked)
        newest = max([e async for e in listed], key=lambda e: _last(e, now), default=None)
    except Forbidden:
        return managed
    if newest is None:
        return managed
    since = format_duration(now - _last(newest, now))
    return replace(managed, refused=f"FailedCreate {since} ago: {_message(newest)}")


def _lacks_pods(managed: Managed) -> bool:
    if managed.state not in {State.ROLLING, State.STUCK}:
        return False
    r = managed.rollout
    if r is not None:
        return r.generation_seen and r.total < r.replicas
    return not get(managed.obj, "status", "active", default=0)


async def _lost_nodes(
    transport: Transport, pods: Iterable[PodFacts], now: datetime
) -> tuple[Mapping[str, str], Sequence[str]]:
    """Return a sentence for each node that is gone or not Ready, of those with pods that are out of
    service or being deleted, and why there is none. A pod of a lost node may look as it did."""
    waiting = Counter(p.node for p in pods if p.node and (p.deleting or _down(p)))
    found: dict[str, str] = {}
    for name, count in waiting.most_common(_LOOKED_AT):
        try:
            reply = await transport.send(ApiRequest(verb="get", resource=_NODES, name=name))
        except NotFound:
            found[name] = f"node {shown(name)} of {many(count)} does not exist any more"
        except Forbidden:
            return {}, ("this account may not read nodes",)
        else:
            if why := _not_ready(reply.body, count, now):
                found[name] = why
    return found, ()


def _down(pod: PodFacts) -> bool:
    return pod.active and not pod.in_service


def _not_ready(node: Obj, count: int, now: datetime) -> str:
    """Return a sentence for a node that is not Ready, "" for one that is."""
    ready = find(get(node, "status", "conditions", default=()), "Ready") or {}
    if ready.get("status") == "True":
        return ""
    since = parse_time(ready.get("lastTransitionTime"))
    ago = f" for {format_duration(now - since)}" if since else ""
    why = visible(" ".join(str(ready.get("message") or ready.get("reason") or "").split()))
    name = shown(node["metadata"]["name"])
    return f"node {name} of {many(count)} has not been Ready{ago}{why and f': {why}'}"


async def _of_events(transport: Transport, managed: Managed, now: datetime) -> PodWarnings:
    """Return the newest warnings of the pods of a rollout whose status does not give the cause:
    an unscheduled pod and one that cannot start say it themselves. Raises ApiError but Forbidden.
    """
    r = managed.rollout
    if r is None or r.state not in MOVING or r.failing or r.hindered:
        return PodWarnings()
    dark = [p for p in managed.pods if p.active and unready(p) and not unscheduled(p)]
    if not dark:
        return PodWarnings()
    namespace = managed.key.namespace
    try:
        listed = each(transport, EVENTS, namespace=namespace, field_selector=_OF_PODS)
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
    return f"{pod}: {event.get('reason', '')} {format_duration(since)} ago: {_message(event)}"


def _message(event: Obj) -> str:
    return visible(" ".join(str(event.get("message", "")).split()))


def _last(event: Obj, now: datetime) -> datetime:
    return parse_time(last_seen(event)) or now
