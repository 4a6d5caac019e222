"""Controller of ContainerRecreateRequests: drains, snapshots, deadlines and clean-up.

The node agent stops containers; this controller reads what kubelet reports of the pod, ends
requests that the agent cannot end, and keeps the pod out of service while a request asks for it.

Source: CRR-30 to CRR-36. OpenKruise snapshots containers that started after the request, by two
clocks (#895), and never ends a request for a pod that has finished.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.model.node.recreate_request import (
    ACTIVE,
    DRAINING,
    UNREADY,
    RecreatePhase,
    RecreateRequest,
    recreate_request,
)
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.planning.plan import Action, Patch, Plan, expired
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.planning.workload import Workload
from gitkruise.model.workloads import labels as wire
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.model.workloads.pod import FINISHED as OVER
from gitkruise.model.workloads.pod import POD, PodFacts
from gitkruise.planner.node.writes import deleted, patched
from gitkruise.planner.pods.pod_patch import PodChange, patch_of
from gitkruise.planner.pods.readiness import BrokenConditionError, KruiseKey, kruise_condition
from gitkruise.wire.primitives.names import ObjectKey
from gitkruise.wire.primitives.times import format_time

RESPONSE: Final = timedelta(seconds=60)
AGENT: Final = "ContainerRecreateRequest"  # userAgent of the key in KruisePodReady
GONE: Final = "pod has gone"
FINISHED: Final = "pod has finished"
SILENT: Final = "daemon has not responded for a long time"
LATE: Final = "recreating has exceeded the activeDeadlineSeconds"
_DRAIN_TEXT: Final = "Pod has been forced to not-ready for unreadyGracePeriodSeconds drain"


@dataclass(frozen=True, slots=True, kw_only=True)
class RecreateSnapshot:
    """A request and the pod of its name, whatever that pod's uid."""

    request: RecreateRequest
    pod: PodFacts | None
    now: datetime


def observe_request(view: ClusterView, key: ObjectKey, now: datetime) -> RecreateSnapshot | None:
    """None when the request is gone."""
    raw = view.get(key)
    if raw is None:
        return None
    request = recreate_request(raw)
    pod = view.pod(ObjectKey(*POD, key.namespace, request.spec.pod_name))
    return RecreateSnapshot(request=request, pod=pod, now=now)


def requests_of_pod(view: ClusterView, pod: ObjectKey) -> Iterator[ObjectKey]:
    """Keys of the requests that name a pod: a change of it wakes them."""
    for raw in view.objects(RECREATE, pod.namespace):
        if raw["spec"].get("podName") == pod.name:
            yield ObjectKey(*RECREATE, pod.namespace, raw["metadata"]["name"])


def plan_request(s: RecreateSnapshot, gates: Gates) -> Plan:
    """Plan one round; the rows of CRR-30 to CRR-36 in their order."""
    request, meta = s.request, s.request.metadata
    if not gates.kruise_daemon:
        return Plan()
    if request.over:
        actions = list(_release(s))
        if meta.deleting is not None or actions:
            return Plan(actions=tuple(actions))
        return _after_completion(s)
    return _go_on(s)


def _go_on(s: RecreateSnapshot) -> Plan:
    """End a request that is out of time or of containers; otherwise report on the pod."""
    limits = [(at, why) for at, why in _limits(s.request) if at is not None]
    missed = [why for at, why in limits if s.now >= at]
    if why := next(iter([*filter(None, [_unreachable(s)]), *missed]), ""):
        return Plan(actions=(_complete(s, why),))
    wake_at = min((at for at, _ in limits), default=None)
    if s.request.status.phase != RecreatePhase.RECREATING or s.pod is None:
        return Plan(wake_at=wake_at)
    return Plan(actions=tuple(_progress(s, s.pod)), wake_at=wake_at)


def _unreachable(s: RecreateSnapshot) -> str:
    """Reason why no container of the request will come back; "" when they may."""
    pod = s.pod
    if pod is None or pod.deleting is not None or pod.uid != s.request.pod_uid:
        return GONE
    return FINISHED if pod.phase in OVER and _all_ended(s.request, pod) else ""


def _all_ended(request: RecreateRequest, pod: PodFacts) -> bool:
    running = {status.name for status in pod.statuses if status.started is not None}
    return not running.intersection(target.name for target in request.spec.containers)


def _limits(request: RecreateRequest) -> Iterable[tuple[datetime | None, str]]:
    """Instants at which the request ends without its agent, with the message."""
    if request.status.phase == RecreatePhase.NONE:
        created = request.metadata.created
        yield None if created is None else created + RESPONSE, SILENT
    deadline = request.spec.active_deadline_s
    if deadline is not None:
        yield request.after_creation(deadline), LATE


def _after_completion(s: RecreateSnapshot) -> Plan:
    request, meta = s.request, s.request.metadata
    if ACTIVE in meta.labels:
        return Plan(actions=(patched(request, {"metadata": {"labels": {ACTIVE: None}}}),))
    return expired(deleted(request), request.status.completed, request.spec.ttl_s, s.now)


def _progress(s: RecreateSnapshot, pod: PodFacts) -> Iterator[Action]:
    """The snapshot for the agent, and the drain."""
    status: dict[str, Any] = {}
    seen = _restarted(s.request, pod)
    known = [(e.name, e.ready, e.restart_count, e.container_id) for e in s.request.status.snapshot]
    if seen and seen != known:
        fields = ("name", "ready", "restartCount", "containerID")
        status["containerStatusSnapshot"] = [dict(zip(fields, row, strict=True)) for row in seen]
    grace = s.request.spec.strategy.unready_grace_s
    if grace is not None and s.request.drain_began is None:
        if wire.KRUISE_READY in pod.gates and UNREADY not in s.request.metadata.finalizers:
            finalizers = [*s.request.metadata.finalizers, UNREADY]
            yield patched(s.request, {"metadata": {"finalizers": finalizers}})
            return  # the finalizer first: nothing else would put the pod back into service
        if leave := _keyed(s, pod, added=True):
            yield leave
        status["conditions"] = [
            *({"type": c.type, "status": c.status} for c in s.request.status.conditions
              if c.type != DRAINING),
            {
                "type": DRAINING,
                "status": "True",
                "reason": DRAINING,
                "message": _DRAIN_TEXT,
                "lastTransitionTime": format_time(s.now),
            },
        ]  # fmt: skip
    if status:
        yield patched(s.request, {"status": status}, subresource="status")


def _restarted(request: RecreateRequest, pod: PodFacts) -> list[tuple[str, bool, int, str]]:
    """Running containers that are not those of the time of admission, in the spec's order.

    Ids and restart counts say so, not times: those would be of two clocks.
    """
    statuses = {status.name: status for status in pod.statuses}
    found = []
    for target in request.spec.containers:
        status, before = statuses.get(target.name), target.status_context
        if status is None or status.started is None or before is None:
            continue
        restarts = status.restart_count
        if status.container_id != before.container_id or restarts > before.restart_count:
            found.append((target.name, status.ready, restarts, status.container_id))
    return found


def _release(s: RecreateSnapshot) -> Iterator[Action]:
    """Put the pod back into service, then drop the finalizer."""
    meta = s.request.metadata
    if UNREADY not in meta.finalizers:
        return
    if s.pod is not None and s.pod.uid == s.request.pod_uid:
        back = _keyed(s, s.pod, added=False)
        if back is not None:
            yield back
    left = [name for name in meta.finalizers if name != UNREADY]
    yield patched(s.request, {"metadata": {"finalizers": left}})


def _keyed(s: RecreateSnapshot, pod: PodFacts, *, added: bool) -> Patch | None:
    """The patch that adds this request's key to KruisePodReady, or takes it away."""
    key = KruiseKey(AGENT, f"{s.request.metadata.namespace}/{s.request.metadata.name}")
    try:
        condition = kruise_condition(pod, [(key, added)], s.now)
    except BrokenConditionError:
        return None  # another writer's text: the request goes on without leaving service
    if condition is None:
        return None
    return patch_of(pod, PodChange(conditions=[condition]), s.now)


def _complete(s: RecreateSnapshot, message: str) -> Patch:
    status = {
        "phase": RecreatePhase.COMPLETED.value,
        "completionTime": format_time(s.now),
        "message": message,
    }
    return patched(s.request, {"status": status}, subresource="status")


REQUESTS: Final[Workload[RecreateSnapshot]] = Workload(
    kind=RECREATE,
    version=VERSION,
    owns=(),
    observe=observe_request,
    decide=plan_request,
    watches={POD: requests_of_pod},
)
