"""Recreation of pods that no webhook saw and that have not started, once a webhook answers.

A pod webhook must not hold up pods, so while none answers they are created without sidecars. A
container cannot be added later, so such a pod is deleted, and its controller makes another: only
while no container of it has run, and only after a dry run has shown that sidecars are injected now.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, Final

from gitkruise.errors import ApiError, GitkruiseError
from gitkruise.kube.client.events import Recorder, Subject
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.planning.plan import Event
from gitkruise.model.planning.view import ClusterView
from gitkruise.model.workloads.labels import SIDECARSET
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.model.workloads.sidecarset import SidecarSetFacts, sidecarset_facts
from gitkruise.model.workloads.sidecarset_annotations import injected_sets
from gitkruise.wire.primitives.log_line import log_line
from gitkruise.wire.primitives.names import Obj, ObjectKey, controller_of
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import PODS, ApiRequest
from gitkruise.wire.primitives.times import parse_time

log: Final = logging.getLogger(__name__)

COMPONENT: Final = "sidecarset-controller"
EVERY_S: Final = 60.0
SETTLED: Final = timedelta(seconds=30)  # a younger pod may be about to start
AGAIN: Final = timedelta(minutes=10)  # between two looks at one pod
AT_ONCE_MAX: Final = 10
REMEMBERED_MAX: Final = 10_000
OWNERS: Final = frozenset({"ReplicaSet", "StatefulSet", "CloneSet"})  # they replace it immediately
_SERVERS: Final = frozenset(
    {"uid", "resourceVersion", "creationTimestamp", "managedFields", "generation", "selfLink"}
)


class Repairer:
    """Looks every minute for pods that were missed."""

    def __init__(
        self,
        view: ClusterView,
        transport: Transport,
        clock: Clock,
        recorder: Recorder,
        drives: Callable[[ObjectKey], bool] = lambda _: True,
    ) -> None:
        self._view, self._transport, self._clock = view, transport, clock
        self._recorder, self._drives = recorder, drives
        self._looked: dict[str, datetime] = {}

    async def run(self) -> None:
        """For ever."""
        while True:
            await self._clock.sleep(EVERY_S)
            try:
                await self.round()
            except GitkruiseError as error:
                log.info(log_line("sidecar-repair-failed", error=error))
            except Exception:  # a bug in here must not stop the controllers
                log.exception(log_line("sidecar-repair-crashed"))

    async def round(self) -> list[str]:
        """Names of the pods that were deleted. Raises ApiError."""
        now = self._clock.now()
        ours = (pod for pod in missed(self._view, now) if self._drives(pod.key))
        due = [pod for pod in ours if self._is_due(pod, now)][:AT_ONCE_MAX]
        repaired = []
        for pod in due:
            self._looked[pod.uid] = now
            raw = self._view.get(pod.key)
            if raw is not None and _made_again(raw) and await self._would_be_injected(raw):
                await self._remove(pod)
                repaired.append(pod.name)
        return repaired

    def _is_due(self, pod: PodFacts, now: datetime) -> bool:
        if len(self._looked) > REMEMBERED_MAX:
            self._looked.clear()
        looked = self._looked.get(pod.uid)
        return looked is None or now - looked >= AGAIN

    async def _would_be_injected(self, raw: Obj) -> bool:
        """Ask the server, without creating anything."""
        request = ApiRequest(
            verb="create",
            resource=PODS,
            namespace=raw["metadata"]["namespace"],
            body=_probe(raw),
            params={"dryRun": "All"},
        )
        try:
            made = (await self._transport.send(request)).body
        except ApiError as error:
            log.info(log_line("pod-not-probed", pod=raw["metadata"]["name"], error=error))
            return False
        return bool(injected_sets(get(made, "metadata", "annotations", default={})))

    async def _remove(self, pod: PodFacts) -> None:
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "preconditions": {"uid": pod.uid, "resourceVersion": pod.resource_version},
        }
        request = ApiRequest(
            verb="delete", resource=PODS, namespace=pod.namespace, name=pod.name, body=body
        )
        await self._transport.send(request)
        subject = Subject(key=pod.key, version="v1", uid=pod.uid)
        text = "created while no webhook answered, and not started: recreated to get its sidecars"
        self._recorder.record(subject, Event("Normal", "SidecarsMissed", text), COMPONENT)
        log.info(log_line("sidecar-repair", pod=pod.key, text=text))


def missed(view: ClusterView, now: datetime) -> Iterator[PodFacts]:
    """Pods that a SidecarSet older than they wanted, and that have neither sidecars nor run."""
    sets = [
        (facts, parse_time(get(raw, "metadata", "creationTimestamp")))
        for raw in view.objects(SIDECARSET, "")
        if not (facts := sidecarset_facts(raw)).injection_paused
    ]
    for pod in view.pods("") if sets else ():
        if not _untouched(pod, now):
            continue
        older = [s for s, since in sets if since and pod.created and since < pod.created]
        if any(s.selects(pod.labels) for s in older) and _in_namespace(view, pod, older):
            yield pod


def _untouched(pod: PodFacts, now: datetime) -> bool:
    """Settled, and yet nothing of it has run."""
    young = pod.created is None or now - pod.created < SETTLED
    if young or pod.deleting or pod.phase != "Pending" or not pod.controller_uid:
        return False
    return not injected_sets(pod.annotations) and not any(s.container_id for s in pod.statuses)


def _in_namespace(view: ClusterView, pod: PodFacts, sets: Sequence[SidecarSetFacts]) -> bool:
    namespace = view.get(ObjectKey("", "Namespace", "", pod.namespace))
    labels = None if namespace is None else get(namespace, "metadata", "labels", default={})
    return any(s.in_namespace(labels) and s.selects(pod.labels) for s in sets)


def _made_again(raw: Obj) -> bool:
    owner = controller_of(raw)
    return owner is not None and owner["kind"] in OWNERS


def _probe(raw: Obj) -> dict[str, Any]:
    """The pod as its controller would send it again, under a name of its own."""
    meta = {key: value for key, value in raw["metadata"].items() if key not in _SERVERS}
    spec = {key: value for key, value in raw["spec"].items() if key != "nodeName"}
    name = f"{meta['name'][:240]}-probe"
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {**meta, "name": name}, "spec": spec}
