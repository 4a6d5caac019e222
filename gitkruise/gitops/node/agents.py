"""Actors behind a request: the agents of nodes, and the controller that counts and ends it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from gitkruise.errors import ApiError, ClusterFailed, Forbidden
from gitkruise.gitops.cluster.engine import (
    LEASE_NAMESPACE,
    WORKLOADS_LEASE,
    is_renewed,
    kruise_is_at_work,
)
from gitkruise.gitops.node.submission import refused
from gitkruise.kube.cache.leader_election import LEASES
from gitkruise.kube.client.discovery import listed
from gitkruise.kube.client.transport import Transport
from gitkruise.kube.system.clock import Clock
from gitkruise.model.node.node_fit import is_simulated
from gitkruise.model.workloads.pod import PodFacts, pod_facts
from gitkruise.wire.primitives.names import Obj
from gitkruise.wire.primitives.requests import PODS, ApiRequest, ResourceRef

NODES: Final = ResourceRef("", "v1", "nodes")
_AGENTS: Final = {  # label selector → the program
    "app.kubernetes.io/name=gitkruise-agent": "gitkruise agent",
    "control-plane=daemon": "kruise-daemon",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentsFound:
    """The program that acts on each node. `unknown` is the reason why others may act, too."""

    by_node: Mapping[str, str] = field(default_factory=dict)
    unknown: str = ""

    def without(self, nodes: Collection[str]) -> tuple[str, ...]:
        """Those of `nodes` where no agent was found."""
        return tuple(sorted(node for node in nodes if node not in self.by_node))


async def find_agents(transport: Transport) -> AgentsFound:
    """Find agents as pods, and nodes that simulate one. An agent outside of the cluster is not
    found. Raises ApiError other than Forbidden."""
    found: dict[str, str] = {}
    try:
        nodes = await listed(transport, NODES)
        pods = [await _pods(transport, selector) for selector in _AGENTS]
    except Forbidden as error:
        return AgentsFound(unknown=f"this account may not look for agents: {error.message}")
    for node in nodes:
        if is_simulated(node):
            found[node["metadata"]["name"]] = "simulated agent"
    for program, running in zip(_AGENTS.values(), pods, strict=True):
        for pod in running:
            if pod.ready:
                found[pod.node] = program
    return AgentsFound(by_node=found)


async def _pods(transport: Transport, selector: str) -> list[PodFacts]:
    request = ApiRequest(verb="list", resource=PODS, params={"labelSelector": selector})
    items: Sequence[Obj] = (await transport.send(request)).body.get("items") or ()
    return [pod_facts(item) for item in items]


async def controller_problem(transport: Transport, clock: Clock) -> str:
    """Return why no controller would end a request; "" when one is at work or it is not known."""
    try:
        if await kruise_is_at_work(transport, clock):
            return ""
        request = ApiRequest(
            verb="get", resource=LEASES, namespace=LEASE_NAMESPACE, name=WORKLOADS_LEASE
        )
        lease = (await transport.send(request)).body
    except Forbidden:
        return ""
    except ApiError as error:
        return f"no controller of requests is at work: {error.message}"
    if is_renewed(lease, clock.now()):
        return ""
    return f"no controller of requests is at work: Lease {WORKLOADS_LEASE} is out of date"


def no_agent(nodes: Collection[str], what: str) -> ClusterFailed:
    """The error of a request that no agent would carry out."""
    where = ", ".join(sorted(nodes))
    plural = "nodes" if len(nodes) > 1 else "node"
    next_ = "kubectl apply -k deploy/agent, or --any-agent if one runs elsewhere"
    return refused("GK4602", f"no node agent found on {plural} {where}", next_, ("why", what))
