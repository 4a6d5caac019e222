"""Requests to recreate containers of simulated pods: one pod at a time, one stop at a time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Final, NamedTuple

from gitkruise.errors import ApiError
from gitkruise.model.node.containers import ContainerPhase, NodeContainer
from gitkruise.model.node.recreate_request import POD_UID, RecreateRequest, recreate_request
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.planner.node.recreate_agent import (
    StopContainer,
    Wait,
    WriteStatus,
    after_stop,
    next_step,
    pending_status,
    pick,
)
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.requests import merge_request
from gitkruise.world.controllers import event_recorder as event_log
from gitkruise.world.controllers.client import resource_of
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.pod_worker import PodWorker
from gitkruise.world.kubelet.runtime import RUNTIME, RuntimeState

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

USER, COMPONENT = "kruise-daemon", "kruise-daemon-crr"
LOOK: Final = timedelta(milliseconds=100)  # how often an agent asks whether a container ended
STEPS_MAX: Final = 100
_PHASES: Final = {
    RuntimeState.CREATED: ContainerPhase.CREATED,
    RuntimeState.RUNNING: ContainerPhase.RUNNING,
    RuntimeState.EXITED: ContainerPhase.EXITED,
    RuntimeState.UNKNOWN: ContainerPhase.UNKNOWN,
}


class _Stop(NamedTuple):
    """A stop in progress; the agent waits for it before it does anything else for the pod."""

    request: str  # uid
    container: str
    id: str


@dataclass(slots=True)
class RecreateAgents:
    """Memory of the agents of all nodes about stops in progress, by pod."""

    kubelet: Kubelet
    stops: dict[ObjectKey, _Stop] = field(default_factory=dict)

    def run(self, world: World, pod_key: ObjectKey, now: datetime) -> datetime | None:
        """Take the next steps for the requests of a pod; the instant of the next one."""
        for _ in range(STEPS_MAX):
            picked = pick(self._requests(world, pod_key))
            for waiting in picked.to_pending:
                _write(world, waiting, pending_status(), now)
            if picked.current is None:
                self.stops.pop(pod_key, None)
                return None
            pod = world.get(pod_key)
            containers = self._containers(pod, picked.current)
            stop = self.stops.get(pod_key)
            if stop is not None:
                if _goes_on(stop, containers):
                    return now + LOOK
                self._report_stop(world, pod_key, picked.current, now)
                continue
            match next_step(picked.current, containers, now, runtimes=(RUNTIME,)):
                case WriteStatus(status=status):
                    if not _write(world, picked.current, status, now):
                        return None
                case StopContainer() as step:
                    assert pod is not None, "a container that is stopped belongs to a pod"
                    self._stop(world, pod, picked.current, step, now)
                case Wait(until=until):
                    return until
        raise AssertionError(f"the agent never rests: {pod_key}")

    def _requests(self, world: World, pod_key: ObjectKey) -> list[RecreateRequest]:
        return [
            recreate_request(raw)
            for raw in world.objects(RECREATE, pod_key.namespace)
            if raw["spec"].get("podName") == pod_key.name
            and POD_UID in (raw["metadata"].get("labels") or {})
        ]

    def _containers(self, pod: Obj | None, request: RecreateRequest) -> dict[str, NodeContainer]:
        """The newest containers of the pod that the request names; {} when it was replaced."""
        worker = None if pod is None else self.kubelet.worker(pod)
        if pod is None or worker is None or worker.identity.uid != request.pod_uid:
            return {}
        return containers_of(worker)

    def _report_stop(
        self, world: World, pod_key: ObjectKey, request: RecreateRequest, now: datetime
    ) -> None:
        """Write that a stop is over; one of another request went with that request."""
        stop = self.stops.pop(pod_key)
        if stop.request == request.metadata.uid:
            _write(world, request, after_stop(request, stop.container), now)

    def _stop(
        self, world: World, pod: Obj, request: RecreateRequest, stop: StopContainer, now: datetime
    ) -> None:
        event_log.record(world, pod, stop.event, now, component=COMPONENT)
        grace = float(max(stop.grace_s, 2))
        self.kubelet.stop_container(world, pod, stop.target.name, now, grace_s=grace)
        key = ObjectKey("", "Pod", pod["metadata"]["namespace"], pod["metadata"]["name"])
        self.stops[key] = _Stop(request.metadata.uid, stop.target.name, stop.id)


def _goes_on(stop: _Stop, containers: Mapping[str, NodeContainer]) -> bool:
    seen = containers.get(stop.container)
    return seen is not None and seen.id == stop.id and seen.runs


def containers_of(worker: PodWorker) -> dict[str, NodeContainer]:
    """Return the newest containers of a simulated pod, as CRI would list them."""
    return {
        seen.name: NodeContainer(
            name=seen.name,
            id=worker.identity.container(seen.name, seen.restarts),
            phase=_PHASES[seen.run],
            attempt=seen.restarts,
            created=seen.started,
            started=seen.started,
        )
        for seen in worker.state.runtime.containers.values()
    }


def _write(world: World, request: RecreateRequest, status: Obj, now: datetime) -> bool:
    """Merge `status`; False when the server refused, and the next change is the next try."""
    key, body = request.key, {"metadata": {"uid": request.metadata.uid}, "status": status}
    ref = resource_of(world.catalog, key, VERSION)
    write = merge_request(ref, key.name, body, namespace=key.namespace, subresource="status")
    try:
        world.handle(write, now, user=USER)
    except ApiError:
        return False
    return True
