"""Work of node agents for a workload, read from the cluster for `gitkruise why`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from gitkruise.errors import Forbidden, NotFound
from gitkruise.gitops.node.prepull import JOBS, NODE_IMAGES
from gitkruise.gitops.node.recreate import REQUESTS
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.model.gitops.health import Phase
from gitkruise.model.node.node_image import node_image
from gitkruise.model.node.pull_job import pull_job
from gitkruise.model.node.recreate_request import recreate_request
from gitkruise.model.workloads.pod import PodFacts
from gitkruise.planner.health.health import health
from gitkruise.planner.node.activity import (
    jobs_for,
    pull_sentences,
    requests_for,
    unfinished_pulls,
)
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import ResourceRef


@dataclass(frozen=True, slots=True)
class AgentWork:
    """One request or pull job with its state; `details` are sentences about single nodes."""

    kind: str
    name: str
    state: Phase
    message: str
    details: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class AgentActivity:
    """Requests that are open or failed. `unread` names what this account may not list."""

    work: tuple[AgentWork, ...] = ()
    unread: tuple[str, ...] = ()


async def agent_activity(
    transport: Transport, namespace: str, pods: Sequence[PodFacts], images: Iterable[str]
) -> AgentActivity:
    """Read the requests for `pods` and the pulls of `images`. Raises ApiError but Forbidden."""
    unread: list[str] = []
    raws = await _listed(transport, REQUESTS, namespace, unread)
    by_name = {raw["metadata"]["name"]: raw for raw in raws}
    found = requests_for(map(recreate_request, raws), pods)
    work = [_work(by_name[request.metadata.name]) for request in found]
    raw_jobs = await _listed(transport, JOBS, namespace, unread)
    named = {raw["metadata"]["name"]: raw for raw in raw_jobs}
    jobs = list(jobs_for(map(pull_job, raw_jobs), pods, images))
    nodes = await _listed(transport, NODE_IMAGES, "", unread) if jobs else []
    states = [node_image(raw) for raw in nodes]
    for job in jobs:
        details = tuple(pull_sentences(unfinished_pulls([job], states)))
        work.append(_work(named[job.metadata.name], details))
    return AgentActivity(
        tuple(one for one in work if one.state is not Phase.CURRENT), tuple(unread)
    )


def _work(raw: Obj, details: tuple[str, ...] = ()) -> AgentWork:
    state = health(raw)
    return AgentWork(raw["kind"], raw["metadata"]["name"], state.phase, state.message, details)


async def _listed(
    transport: Transport, ref: ResourceRef, namespace: str, unread: list[str]
) -> list[Obj]:
    """All objects, none where the kind is not served; one that is forbidden is noted."""
    try:
        return await listed(transport, ref, namespace=namespace)
    except NotFound:
        return []
    except Forbidden:
        unread.append(f"this account may not list {ref.plural}")
        return []
