"""The agent on a real node, with the rights that its manifests give it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import yaml

from gitkruise.agent.cri.runtime import Runtime
from gitkruise.agent.service import AgentOptions, agent
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import data_dir
from tests.agent.scenes import CRDS
from tests.kube.real.apiserver import talking
from tests.node.cluster import Cluster
from tests.node.pods import until
from tests.node.worker import Worker

HOME, RBAC = "gitkruise-agent", "rbac.authorization.k8s.io"
RIGHTS = data_dir("deploy") / "agent" / "rbac.yaml"


@asynccontextmanager
async def acting(node: Cluster, worker: Worker | None = None) -> AsyncIterator[Runtime]:
    """The agent of a node, the first one unless said, with the rights that deploy/agent gives it
    and no others."""
    mine = worker or node.workers[0]
    options = AgentOptions(node=mine.name, socket=mine.socket)
    token = await asyncio.to_thread(agent_token, node)
    async with (
        talking(node.server, token) as transport,
        agent(options, transport, SystemClock()) as running,
    ):
        yield running


def agent_token(node: Cluster) -> str:
    """A token of the agent's service account."""
    accounts = f"/api/v1/namespaces/{HOME}/serviceaccounts"
    reply = node.ask(f"{accounts}/gitkruise-agent/token", "POST", {"spec": {}})
    return str(reply["status"]["token"])


def install_rights(node: Cluster) -> None:
    """Create the objects of deploy/agent/rbac.yaml."""
    base = {"v1": "/api/v1", "rbac.authorization.k8s.io/v1": f"/apis/{RBAC}/v1"}
    for raw in yaml.safe_load_all(RIGHTS.read_text()):
        space = raw["metadata"].get("namespace", "")
        place = f"/namespaces/{space}" if space else ""
        plural = f"{raw['kind'].lower()}s"
        node.ask(f"{base[raw['apiVersion']]}{place}/{plural}", "POST", raw)


def install_agent(node: Cluster) -> None:
    """Install the agent's kinds, and its service account with the rights of deploy/agent."""
    install_rights(node)
    kinds = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    there = {item["metadata"]["name"] for item in node.ask(kinds)["items"]}
    for crd in CRDS:
        if crd["metadata"]["name"] not in there:
            node.ask(kinds, "POST", crd)
        path = f"{kinds}/{crd['metadata']['name']}"
        until(partial(node.ask, path), established)


def established(found: dict[str, Any]) -> bool:
    """Return whether the server serves a definition."""
    conditions = found.get("status", {}).get("conditions") or []  # null at first
    return any((c["type"], c["status"]) == ("Established", "True") for c in conditions)
