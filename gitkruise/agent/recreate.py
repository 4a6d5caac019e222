"""ContainerRecreateRequests of this node: one task per pod that has any."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec

from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import Runtime
from gitkruise.agent.hooks import HookFailed, run_hook
from gitkruise.agent.rounds import LONGEST_S, Rounds
from gitkruise.errors import ApiError, NotFound
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.events import Recorder, container_subject
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.recreate_request import (
    ACTIVE,
    NODE_NAME,
    RecreateRequest,
    recreate_request,
)
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.planning.plan import Event
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.model.workloads.pod import POD
from gitkruise.planner.node.recreate_agent import (
    StopContainer,
    Wait,
    WriteStatus,
    after_stop,
    next_step,
    pending_status,
    pick,
    rest_of_grace,
)
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import PODS, ApiRequest, ResourceRef, merge_request

REQUESTS: Final = ResourceRef(RECREATE.group, VERSION, "containerrecreaterequests")
COMPONENT: Final = "kruise-daemon-crr"  # the source of events, as with OpenKruise
WORKERS: Final = 32  # pods whose containers are looked at or stopped at the same time
STEPS_MAX: Final = 100  # of one pod in a row: a plan that never waits is a defect
log: Final = logging.getLogger(__name__)


def requests_feed(node: str) -> Feed:
    """The unfinished requests for pods of `node`."""
    selector = f"{NODE_NAME}={node},{ACTIVE}=true"
    return Feed(ref=REQUESTS, kind=RECREATE.kind, label_selector=selector)


@dataclass(slots=True)
class RecreateAgent:
    """Carries out the requests in `store`, at most one stop at a time per pod."""

    store: InformerCache
    transport: Transport
    runtime: Runtime
    recorder: Recorder
    clock: Clock

    async def run(self) -> None:
        """Until cancelled."""
        rounds = Rounds(
            self.store, self.clock, RECREATE, self._work,
            event="recreate-failed", workers=WORKERS, key_of=lambda seen: _pod_of(seen.read()),
        )  # fmt: skip
        await rounds.run()

    def _requests(self, pod: ObjectKey) -> list[RecreateRequest]:
        """The unfinished requests for a pod."""
        found = []
        for raw in self.store.objects(RECREATE, pod.namespace):
            try:
                request = recreate_request(raw)
            except msgspec.ValidationError as error:
                log.warning(log_line("recreate-unreadable", object=_name(raw), error=error))
                continue
            if request.spec.pod_name == pod.name and not request.over:
                found.append(request)
        return found

    async def _work(self, pod: ObjectKey) -> datetime | None:
        """Take steps until there is something to wait for; returns until when at most."""
        for _ in range(STEPS_MAX):
            request, waiting = pick(self._requests(pod))
            for other in waiting:
                await self._write(other, pending_status())
            if request is None:
                return None
            containers = await self.runtime.containers_of(request.pod_uid)
            now = self.clock.now()
            step = next_step(request, containers, now, runtimes={self.runtime.name})
            match step:
                case Wait(until=until):
                    return until
                case WriteStatus(status=status):
                    await self._write(request, status)
                case StopContainer():
                    await self._stop(request, step)
        log.error(log_line("recreate-endless", pod=pod, steps=STEPS_MAX))
        return self.clock.now() + timedelta(seconds=LONGEST_S)

    async def _stop(self, request: RecreateRequest, step: StopContainer) -> None:
        """Stop a container and write that down. Raises RuntimeCallFailed when it may not be."""
        self._record(request, step.target.name, step.event)
        began = self.clock.monotonic()
        if step.hook is not None:
            try:
                await self._hook(request, step)
            except HookFailed as failed:
                event = Event("Warning", "FailedPreStopHook", str(failed))
                self._record(request, step.target.name, event)
        grace = rest_of_grace(step.grace_s, self.clock.monotonic() - began)
        error = ""
        try:
            await self.runtime.stop(step.id, grace)
        except RuntimeCallFailed as failed:
            if failed.unanswered:
                raise  # the next look at the container shows whether it was stopped
            error = str(failed)
        log.info(log_line("container-stopped", request=request.key, id=step.id, error=error))
        await self._write(request, after_stop(request, step.target.name, error), locked=False)

    async def _hook(self, request: RecreateRequest, step: StopContainer) -> None:
        hook = step.hook or {}
        wants_ip = any(kind in hook and not hook[kind].get("host") for kind in _REMOTE)
        address = await self._pod_ip(request) if wants_ip else ""
        await run_hook(self.runtime, step.id, hook, step.target.ports, address, step.grace_s)

    async def _pod_ip(self, request: RecreateRequest) -> str:
        where = request.metadata.namespace
        ask = ApiRequest(verb="get", resource=PODS, namespace=where, name=request.spec.pod_name)
        try:
            pod = thaw((await self.transport.send(ask)).body)
        except ApiError as error:
            raise HookFailed(f"the pod cannot be read: {error}") from None
        return str(get(pod, "status", "podIP", default=""))

    async def _write(self, request: RecreateRequest, status: Obj, *, locked: bool = True) -> None:
        """Merge `status` into the request of this uid; `locked`: unless it has changed since."""
        meta = request.metadata
        held: dict[str, Any] = {"uid": meta.uid}
        if locked:
            held["resourceVersion"] = meta.resource_version
        body = {"metadata": held, "status": status}
        patch = merge_request(
            REQUESTS, meta.name, body, namespace=meta.namespace, subresource="status"
        )
        try:
            reply = await self.transport.send(patch)
        except NotFound:
            self.store.note_absent(request.key, meta.uid)
            return
        self.store.note_write(thaw(reply.body))

    def _record(self, request: RecreateRequest, container: str, event: Event) -> None:
        pod = ObjectKey(*POD, request.metadata.namespace, request.spec.pod_name)
        subject = container_subject(pod, request.pod_uid, container)
        self.recorder.record(subject, event, COMPONENT)


_REMOTE: Final = ("httpGet", "tcpSocket")


def _pod_of(raw: Obj) -> ObjectKey:
    name = get(raw, "spec", "podName", default="")
    return ObjectKey(*POD, raw["metadata"].get("namespace", ""), str(name))


def _name(raw: Obj) -> str:
    return f"{raw['metadata'].get('namespace', '')}/{raw['metadata'].get('name', '')}"
