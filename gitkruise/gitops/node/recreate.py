"""A request to recreate containers of one pod: checked, created, followed to its end."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from gitkruise.errors import ClusterFailed
from gitkruise.gitops.node.agents import controller_problem, find_agents, no_agent
from gitkruise.gitops.node.submission import refused, submit
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport, find_object
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.recreate_request import NODE_NAME
from gitkruise.model.node.wire_shapes import VERSION
from gitkruise.model.workloads.labels import RECREATE
from gitkruise.planner.node.recreate_draft import (
    RecreateOptions,
    draft_request,
    recreate_problem,
    warnings,
)
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.paths import get
from gitkruise.wire.primitives.requests import PODS, ResourceRef

REQUESTS: Final = ResourceRef(RECREATE.group, VERSION, "containerrecreaterequests")
_NAMES_SHOWN: Final = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class RecreateDraft:
    """A request as the server would store it. `agent` is the program that acts on the node."""

    pod: Obj
    options: RecreateOptions
    request: Obj
    node: str
    agent: str
    warnings: tuple[str, ...] = ()


async def prepare(
    transport: Transport,
    clock: Clock,
    namespace: str,
    name: str,
    options: RecreateOptions,
    *,
    any_agent: bool = False,
) -> RecreateDraft:
    """Check a request by a dry run; nothing is created. `any_agent`: do not look for the agent.

    Raises ClusterFailed GK4601 (the pod), GK4602 (no agent), GK4603, GK4604 (admission).
    """
    pod = await _pod(transport, namespace, name)
    if problem := recreate_problem(pod, options):
        raise refused("GK4601", problem.message, problem.next)
    node = str(get(pod, "spec", "nodeName"))
    agents = await find_agents(transport)
    if agents.without({node}) and not agents.unknown and not any_agent:
        raise no_agent({node}, "without one the request changes nothing, and fails after 60 s")
    draft = draft_request(pod, options)
    admitted = await submit(transport, REQUESTS, draft, dry_run=True)
    if get(admitted, "metadata", "labels", NODE_NAME) != node:
        raise _not_filled_in()
    found = [*warnings(pod, options), *filter(None, [agents.unknown])]
    found += filter(None, [await controller_problem(transport, clock)])
    return RecreateDraft(
        pod=pod,
        options=options,
        request=admitted,
        node=node,
        agent=agents.by_node.get(node, "an agent that was not looked for"),
        warnings=tuple(found),
    )


async def create(transport: Transport, draft: RecreateDraft) -> list[Obj]:
    """Create the request of a draft, and return it alone. Raises ClusterFailed GK4604."""
    return [await submit(transport, REQUESTS, draft_request(draft.pod, draft.options))]


async def _pod(transport: Transport, namespace: str, name: str) -> Obj:
    if (pod := await find_object(transport, PODS, name, namespace)) is not None:
        return pod
    names = [one["metadata"]["name"] for one in await listed(transport, PODS, namespace=namespace)]
    there = listing(names, _NAMES_SHOWN)
    raise refused(
        "GK4601",
        f'there is no pod "{name}" in namespace {namespace}',
        "name the pod's namespace with -n",
        ("there are", there or "none"),
    )


def _not_filled_in() -> ClusterFailed:
    message = "no webhook completes requests here: the dry run came back without its node"
    next_ = "gitkruise install --webhooks, or install OpenKruise"
    why = "agents follow requests by the label that the webhook adds"
    return refused("GK4602", message, next_, ("why", why))
