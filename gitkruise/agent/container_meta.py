"""Container metadata of the node's pods: the report in an annotation, and restarts it asks for."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from gitkruise.agent.cri.calls import RuntimeCallFailed
from gitkruise.agent.cri.runtime import Runtime
from gitkruise.agent.hooks import HookFailed, run_hook
from gitkruise.agent.rounds import Rounds
from gitkruise.errors import NotFound
from gitkruise.kube.cache.list_watch import Feed
from gitkruise.kube.cache.store import InformerCache
from gitkruise.kube.client.events import Recorder, container_subject
from gitkruise.kube.client.rawobject import thaw
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.containers import NodeContainer
from gitkruise.model.planning.plan import Event
from gitkruise.model.workloads.labels import CONTAINERS_META
from gitkruise.model.workloads.pod import POD, Container, PodFacts
from gitkruise.planner.node.container_meta import (
    StartedContainer,
    is_reported,
    report_text,
    stale_containers,
)
from gitkruise.planner.node.recreate_agent import GRACE_DEFAULT_S, rest_of_grace
from gitkruise.planner.pods.container_hashes import environment_hash, metadata_variables
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import PODS, merge_request

COMPONENT: Final = "kruise-daemon-containermeta"
WORKERS: Final = 16
# Kubelet starts a container with the metadata that its running sync of the pod began with. A
# container that is stopped as soon as the change arrives would come back with the old one.
SETTLE_S: Final = 1.0
log: Final = logging.getLogger(__name__)


def pods_feed(node: str) -> Feed:
    """The pods of `node`."""
    return Feed(ref=PODS, kind=POD.kind, field_selector=f"spec.nodeName={node}")


@dataclass(slots=True)
class ContainerMetaAgent:
    """Looks at a pod of `store` after each of its changes, one look at a time per pod."""

    store: InformerCache
    transport: Transport
    runtime: Runtime
    recorder: Recorder
    clock: Clock

    async def run(self) -> None:
        """Until cancelled."""
        rounds = Rounds(
            self.store, self.clock, POD, self._keep,
            event="container-meta-failed", workers=WORKERS,
        )  # fmt: skip
        await rounds.run()

    async def _keep(self, key: ObjectKey) -> datetime | None:
        """Report on the containers of a pod, and stop those that are out of date."""
        if not await self._stale(key):
            return None
        await self.clock.sleep(SETTLE_S)
        for container in await self._stale(key):
            raw, pod = self.store.get(key), self.store.pod(key)
            if raw is not None and pod is not None:
                await self._restart(raw, pod, container.name, container.id)
        return None

    async def _stale(self, key: ObjectKey) -> list[StartedContainer]:
        """Report on the containers of a pod; returns those to stop."""
        pod = self.store.pod(key)
        if pod is None or not pod.active or not is_reported(pod):
            return []
        started = await self._started(pod)
        text = report_text(started)
        if started and pod.annotations.get(CONTAINERS_META) != text:
            await self._report(pod, text)
        names = stale_containers(pod, started)
        return [container for container in started if container.name in names]

    async def _started(self, pod: PodFacts) -> list[StartedContainer]:
        """The running containers of a pod whose environment is known."""
        running = await self.runtime.containers_of(pod.uid)
        specs = {container.name: container for container in pod.containers}
        found = []
        for name, container in running.items():
            if name in specs and container.runs:
                found.append(await self._origin(specs[name], container))
        return [container for container in found if container is not None]

    async def _origin(self, spec: Container, container: NodeContainer) -> StartedContainer | None:
        try:
            origin = await self.runtime.started_with(container.id)
        except RuntimeCallFailed as failed:
            if failed.missing:
                return None
            raise
        variables = metadata_variables(spec)
        if origin.environment is None and variables:
            return None
        values = {name: (origin.environment or {}).get(name, "") for name in variables}
        return StartedContainer(
            name=spec.name,
            id=container.id,
            restarts=container.attempt,
            plain=origin.plain,
            environment=environment_hash(values),
        )

    async def _report(self, pod: PodFacts, text: str) -> None:
        """Write the annotation. By way of the status: that right does not include the spec."""
        body = {"metadata": {"uid": pod.uid, "annotations": {CONTAINERS_META: text}}}
        request = merge_request(PODS, pod.name, body, namespace=pod.namespace, subresource="status")
        try:
            reply = await self.transport.send(request)
        except NotFound:
            return
        self.store.note_write(thaw(reply.body))

    async def _restart(self, raw: Obj, pod: PodFacts, name: str, container_id: str) -> None:
        """Stop a container, its pre-stop hook first; kubelet starts it with what is so now."""
        spec: Obj = next(c for c in raw["spec"]["containers"] if c["name"] == name)
        grace = int(get(raw, "spec", "terminationGracePeriodSeconds", default=GRACE_DEFAULT_S))
        hook = get(spec, "lifecycle", "preStop")
        message = f"Stopping container {name}: its environment changed with the pod's metadata"
        self._record(pod, name, Event("Normal", "Killing", message))
        began = self.clock.monotonic()
        if hook and grace > 0:
            address = str(get(raw, "status", "podIP", default=""))
            try:
                await run_hook(
                    self.runtime, container_id, hook, spec.get("ports") or (), address, grace
                )
            except HookFailed as failed:
                self._record(pod, name, Event("Warning", "FailedPreStopHook", str(failed)))
        await self.runtime.stop(container_id, rest_of_grace(grace, self.clock.monotonic() - began))
        log.info(log_line("container-restarted", pod=pod.name, id=container_id))

    def _record(self, pod: PodFacts, name: str, event: Event) -> None:
        subject = container_subject(ObjectKey(*POD, pod.namespace, pod.name), pod.uid, name)
        self.recorder.record(subject, event, COMPONENT)
