"""Health of requests to node agents: containers to recreate, images to pull.

OpenKruise completes a request also when a container failed, the deadline passed or the pod
vanished; here only one that did what it asks for is Current.
"""

from __future__ import annotations

from datetime import datetime
from typing import Final

from gitkruise.errors import Finding, Severity
from gitkruise.model.gitops.health import Health, Phase
from gitkruise.model.node.node_image import PullPhase, node_image
from gitkruise.model.node.pull_job import PullJob, pull_job
from gitkruise.model.node.recreate_request import (
    ContainerRecreateState,
    RecreatePhase,
    RecreateRequest,
    recreate_request,
)
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.planner.health.builtin import counts, progress
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import Obj, ObjectKey

_NAMES_SHOWN: Final = 4


def recreate(obj: Obj, now: datetime | None) -> Health:
    """A ContainerRecreateRequest: Failed once it ended without every container."""
    del now
    request = recreate_request(obj)
    status, states = request.status, request.status.states
    wanted = len(request.spec.containers)
    back = sum(state.phase == RecreatePhase.SUCCEEDED for state in states)
    broken = [state for state in states if state.phase == RecreatePhase.FAILED]
    share = f"{back} of {wanted} containers of pod {request.spec.pod_name} restarted"
    if status.completed is None:
        return progress(status.phase or "NotBegun", _underway(request, share))
    if broken:
        texts = ", ".join(f"{state.name}: {state.message}" for state in broken)
        return Health(Phase.FAILED, "ContainerFailed", f"{share}; {texts}")
    if status.message or back < wanted:
        why = status.message or "the request ended before the others"
        return Health(Phase.FAILED, "NotRecreated", f"{share}; {why}")
    return Health(Phase.CURRENT, "Recreated", share)


def _underway(request: RecreateRequest, share: str) -> str:
    phase = request.status.phase
    if phase == RecreatePhase.NONE:
        node = f" of node {request.node}" if request.node else ""
        return f"waits for the agent{node}"
    if phase == RecreatePhase.PENDING:
        return f"waits for another request for pod {request.spec.pod_name}"
    if request.spec.strategy.unready_grace_s is not None and not request.status.states:
        return "the pod is out of service before its containers are stopped"
    open_ = [s for s in request.status.states if s.phase not in _ENDED]
    doing = ", ".join(f"{state.name} {_step(state)}" for state in open_)
    return f"{share}; {doing}" if doing else share


_ENDED: Final = frozenset({RecreatePhase.SUCCEEDED, RecreatePhase.FAILED})


def _step(state: ContainerRecreateState) -> str:
    """The step that one container waits for."""
    if state.phase == RecreatePhase.RECREATING:
        return "is not ready yet"
    return state.message or "is not stopped yet"


def pull(obj: Obj, now: datetime | None) -> Health:
    """An ImagePullJob: Failed once it ended and a node does not have the image."""
    del now
    job = pull_job(obj)
    status, message = job.status, (obj.get("status") or {}).get("message") or ""
    share = f"{job.spec.image} is on {status.succeeded} of {status.desired} nodes"
    done = status.succeeded + status.failed
    if status.failed and (status.completed is not None or done == status.desired):
        names = (obj.get("status") or {}).get("failedNodes") or ()
        late = f"; {message}" if "exceeds" in message else ""
        return Health(Phase.FAILED, "PullFailed", f"{share}; failed on {_listed(names)}{late}")
    if status.completed is not None or (not job.spec.completion_policy.ends and _all_here(job)):
        return Health(Phase.CURRENT, "Pulled", share)
    if status.started is None:
        return progress("NotBegun", "the controller has not begun yet")
    if job.spec.slots == 0 and not status.active:
        return Health(Phase.PAUSED, "Paused", f"{share}; parallelism is 0")
    failed = f", failed on {status.failed}" if status.failed else ""
    waits = f"; {message}" if message.startswith("job waits") else ""
    return progress("Pulling", f"{share}{failed}{waits}")


def pulls_nowhere(key: ObjectKey, obj: Obj) -> Finding | None:
    """Return the warning GK2405 for an ImagePullJob that began with no node to pull on.

    OpenKruise completes such a job immediately; one that never completes goes on looking for nodes.
    """
    if key.group_kind != PULL_JOB:
        return None
    job = pull_job(obj)
    if job.status.started is None or job.status.desired:
        return None
    following = "correct spec.selector or spec.podSelector, or wait for such a node"
    if job.status.completed is not None:
        following = "correct spec.selector or spec.podSelector under another name: the job is over"
    return Finding(
        code="GK2405",
        severity=Severity.WARNING,
        message=f"{key} pulls {job.spec.image} nowhere: no node matches it",
        notes=(("next", following),),
        object=str(key),
    )


def _all_here(job: PullJob) -> bool:
    return 0 < job.status.desired == job.status.succeeded


def pull_list(obj: Obj, now: datetime | None) -> Health:
    """An ImageListPullJob: Failed once a job of it ended and a node does not have the image."""
    del now
    job = pull_job(obj)
    desired, completed, succeeded = counts(obj, "desired", "completed", "succeeded")
    share = f"{succeeded} of {desired} images are on their nodes"
    failed = [one.get("name") for one in (obj.get("status") or {}).get("failedImageStatuses") or ()]
    if failed and completed == desired:
        return Health(Phase.FAILED, "PullFailed", f"{share}; failed: {_listed(failed)}")
    if job.status.completed is not None or 0 < desired == succeeded:
        return Health(Phase.CURRENT, "Pulled", share)
    if job.status.started is None:
        return progress("NotBegun", "the controller has not begun yet")
    return progress("Pulling", share)


def node(obj: Obj, now: datetime | None) -> Health:
    """A NodeImage: Failed while an image that it names could not be pulled."""
    del now
    image = node_image(obj)
    states = {
        f"{name}:{tag.tag}": status.phase if status is not None else PullPhase.WAITING
        for name, tag in image.tags()
        for status in (image.current_status(name, tag),)
    }
    failed = [name for name, phase in states.items() if phase == PullPhase.FAILED]
    open_ = [name for name, phase in states.items() if phase in _OPEN]
    if open_:
        return progress("Pulling", f"{len(open_)} of {len(states)} images to pull")
    if failed:
        return Health(Phase.FAILED, "PullFailed", f"not pulled: {_listed(failed)}")
    return Health(Phase.CURRENT, "Pulled", f"{len(states)} images pulled")


_OPEN: Final = frozenset({PullPhase.WAITING, PullPhase.PULLING})


def _listed(names: object) -> str:
    return listing(names, _NAMES_SHOWN) if isinstance(names, (list, tuple)) else ""
