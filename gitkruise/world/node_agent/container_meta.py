"""Container metadata of simulated pods: the report in the annotation, and the restarts."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Final

from gitkruise.errors import ApiError
from gitkruise.model.workloads.labels import CONTAINERS_META
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.node.container_meta import (
    StartedContainer,
    is_reported,
    report_text,
    stale_containers,
)
from gitkruise.planner.pods.container_hashes import (
    environment_hash,
    expected_environment,
    plain_hash,
)
from gitkruise.wire.primitives.names import Obj, ObjectKey
from gitkruise.world.controllers.client import ObjectWriter
from gitkruise.world.kubelet.config_refs import reads_metadata
from gitkruise.world.kubelet.kubelet import Kubelet
from gitkruise.world.kubelet.pod_worker import PodWorker

if TYPE_CHECKING:
    from gitkruise.world.api.cluster import World

_WRITER: Final = ObjectWriter("kruise-daemon")
GRACE_S: Final = 30


def concerns(pod: Obj) -> bool:
    """Return whether a raw pod has containers whose environment an agent looks after."""
    return bool(pod["spec"].get("nodeName")) and reads_metadata(pod["spec"])


def keep_environment(world: World, kubelet: Kubelet, pod: Obj, now: datetime) -> None:
    """Report what the pod's containers were started with, and stop those that are out of date."""
    meta = pod["metadata"]
    key = ObjectKey("", "Pod", meta["namespace"], meta["name"])
    facts, worker = world.pod(key), kubelet.worker(pod)
    if facts is None or worker is None or not is_reported(facts):
        return
    started = _started(facts, worker)
    text = report_text(started)
    if started and facts.annotations.get(CONTAINERS_META) != text:
        change = {"metadata": {"uid": facts.uid, "annotations": {CONTAINERS_META: text}}}
        try:
            _WRITER.patch(world, pod, change, now)
        except ApiError:
            return  # a webhook refused it: the next change of the pod is the next try
    grace = pod["spec"].get("terminationGracePeriodSeconds", GRACE_S)
    for name in stale_containers(facts, started):
        kubelet.stop_container(world, pod, name, now, grace_s=float(max(grace, 2)))


def _started(facts: PodFacts, worker: PodWorker) -> list[StartedContainer]:
    """Running containers that the pod's status names; an environment that was never reported is
    taken for the present one."""
    specs = {container.name: container for container in facts.containers}
    found = []
    for status in facts.statuses:
        seen, spec = worker.state.runtime.containers.get(status.name), specs.get(status.name)
        known = seen is not None and seen.up and seen.restarts == status.restart_count
        if seen is None or spec is None or not known or not status.container_id:
            continue
        environment = seen.environment
        if environment is None:
            environment = environment_hash(expected_environment(facts, spec))
        found.append(
            StartedContainer(
                name=status.name,
                id=status.container_id,
                restarts=status.restart_count,
                plain=plain_hash(seen.name, seen.image),
                environment=environment,
            )
        )
    return found
