"""ImagePullJobs for a workload: checked, created, followed to their end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from gitkruise.errors import ApiError, ClusterFailed, Finding, NotFound
from gitkruise.gitops.node.agents import controller_problem, find_agents, no_agent
from gitkruise.gitops.node.submission import not_served, refused, submit
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.node_image import NODE_IMAGE, NodeImage, node_image
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.workloads.labels import PULL_JOB
from gitkruise.model.workloads.pod import pod_facts
from gitkruise.planner.node.node_image import CREATION_DELAY
from gitkruise.planner.node.prepull_draft import (
    PrepullOptions,
    draft_jobs,
    images_of,
    listed_names,
    pull_problem,
    pulled_on,
    selected_nodes,
)
from gitkruise.wire.primitives.names import Obj, key_of, named
from gitkruise.wire.primitives.requests import PODS, ResourceRef

JOBS: Final = ResourceRef(PULL_JOB.group, VERSION, "imagepulljobs")
NODE_IMAGES: Final = ResourceRef(NODE_IMAGE.group, VERSION, "nodeimages")


@dataclass(frozen=True, slots=True, kw_only=True)
class PullDraft:
    """Jobs as the server would store them. `pulled` counts by image the nodes that have it."""

    workload: Obj
    namespace: str
    options: PrepullOptions
    jobs: tuple[Obj, ...]
    nodes: tuple[str, ...]
    pulled: dict[str, int]
    warnings: tuple[str, ...] = ()


async def prepare_jobs(
    transport: Transport,
    clock: Clock,
    workload: Obj,
    namespace: str,
    options: PrepullOptions,
    *,
    any_agent: bool = False,
) -> PullDraft:
    """Check pull jobs by a dry run; nothing is created.

    Raises ClusterFailed GK4602 (no agent), GK4603, GK4604 (admission), GK4606 (nothing to do).
    """
    who = named(key_of(workload))
    if problem := pull_problem(workload, options):
        raise refused(
            "GK4606", f"{who}: {problem}", "name images with --image, nodes with --all-nodes"
        )
    images = await _node_images(transport)
    pods = [pod_facts(raw) for raw in await listed(transport, PODS, namespace=namespace)]
    nodes, lost = selected_nodes(workload, options, pods, images)
    admitted = [
        await submit(transport, JOBS, job, dry_run=True)
        for job in draft_jobs(workload, namespace, options)
    ]
    if not nodes:
        why, way_out = "it has no running pods", "gitkruise prepull --all-nodes"
        if lost:
            why = f"no NodeImage exists for {listed_names(lost)}"
            delay = CREATION_DELAY.seconds
            way_out = f"again later: a node gets one {delay} s after it became Ready"
        raise refused("GK4606", f"{who}: no node to pull on: {why}", way_out)
    agents = await find_agents(transport)
    missing = agents.without(nodes)
    warnings = (
        [f"no NodeImage exists for {listed_names(lost)}; nothing is pulled there"] if lost else []
    )
    if missing and not agents.unknown and not any_agent:
        if set(missing) == set(nodes):
            raise no_agent(nodes, "without one nothing is pulled, and the jobs fail after 10 min")
        warnings.append(f"no node agent found on {listed_names(missing)}; they fail after 10 min")
    warnings += filter(None, [agents.unknown, await controller_problem(transport, clock)])
    return PullDraft(
        workload=workload,
        namespace=namespace,
        options=options,
        jobs=tuple(admitted),
        nodes=nodes,
        pulled={image: pulled_on(image, nodes, images) for image in images_of(workload, options)},
        warnings=tuple(warnings),
    )


async def create_jobs(transport: Transport, draft: PullDraft) -> list[Obj]:
    """Create the jobs of a draft. Raises ClusterFailed GK4604, GK4607 after some were created."""
    made: list[Obj] = []
    for job in draft_jobs(draft.workload, draft.namespace, draft.options):
        try:
            made.append(await submit(transport, JOBS, job))
        except (ApiError, ClusterFailed) as error:
            if not made:
                raise
            raise ClusterFailed(_partly(made, job, error)) from error
    return made


async def _node_images(transport: Transport) -> list[NodeImage]:
    try:
        return [node_image(raw) for raw in await listed(transport, NODE_IMAGES)]
    except NotFound as error:
        raise not_served(NODE_IMAGE.kind, error.message) from error


def _partly(made: Sequence[Obj], job: Obj, error: Exception) -> Finding:
    names = ", ".join(one["metadata"]["name"] for one in made)
    return Finding(
        code="GK4607",
        message=f"the job for {job['spec']['image']} was not created: {error}",
        notes=(
            ("unchanged", f"the jobs created before it go on: {names}"),
            ("next", f"gitkruise prepull with --image {job['spec']['image']}"),
        ),
    )
