"""What a cluster without OpenKruise runs: our controllers of requests, and the agent's process."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import yaml

from gitkruise.controller.controllers import ControllerOptions, Controllers
from gitkruise.kube.system.clock import SystemClock
from gitkruise.kube.system.package_data import data_dir, load_catalog
from gitkruise.model.workloads.feature_gates import Gates
from gitkruise.planner.workloads import NODE
from tests.kube.real.apiserver import talking
from tests.node.agents import agent_token, established
from tests.node.cluster import Cluster
from tests.node.pods import until
from tests.node.worker import Worker

GATES: Final = Gates(image_pull_job_gate=True)
KINDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
NODE_IMAGES: Final = "/apis/apps.kruise.io/v1beta1/nodeimages"


@asynccontextmanager
async def driving(node: Cluster) -> AsyncIterator[None]:
    """The controllers of requests to node agents, for the length of the block."""
    async with talking(node.server) as transport, asyncio.TaskGroup() as tasks:
        options = ControllerOptions(gates=GATES)
        controllers = Controllers(NODE, transport, load_catalog(), SystemClock(), options)
        running = tasks.create_task(controllers.run())
        try:
            yield
        finally:
            controllers.stop()
            await running


@dataclass
class AgentProcess:
    """The agent of a worker in a process of its own, as a crash ends it."""

    worker: Worker
    kubeconfig: str

    def start(self) -> None:
        """Start it and wait until it acts."""
        command = (
            sys.executable, "-m", "gitkruise", "agent", "--node", self.worker.name,
            "--socket", str(self.worker.socket), "--kubeconfig", self.kubeconfig,
        )  # fmt: skip
        (self.worker.processes.folder / "agent.log").unlink(missing_ok=True)
        self.worker.processes.spawn("agent", *command)
        self.worker.processes.until(
            "the agent acts", lambda: "agent of node" in self.worker.processes.log("agent")
        )

    def kill(self) -> None:
        """End it as a crash does."""
        self.worker.processes.kill("agent")


@asynccontextmanager
async def agent_process(node: Cluster) -> AsyncIterator[AgentProcess]:
    """The running agent of the first node."""
    token = await asyncio.to_thread(agent_token, node)
    config = node.server.kubeconfig(token, name="agent")
    agent = AgentProcess(node.workers[0], str(config))
    await asyncio.to_thread(agent.start)
    try:
        yield agent
    finally:
        await asyncio.to_thread(agent.worker.processes.end, "agent")


def install_pull_jobs(node: Cluster) -> None:
    """Install the kinds of pull jobs, and the NodeImage of every node."""
    known = {crd["metadata"]["name"] for crd in node.ask(KINDS)["items"]}
    for plural in ("imagepulljobs", "imagelistpulljobs"):
        name = f"{plural}.apps.kruise.io"
        if name not in known:
            text = (data_dir("deploy") / "crds" / f"{name}.yaml").read_text()
            node.ask(KINDS, "POST", json.loads(json.dumps(yaml.safe_load(text))))
            until(partial(node.ask, f"{KINDS}/{name}"), established)
    there = [one["metadata"]["name"] for one in node.ask(NODE_IMAGES)["items"]]
    for name in (worker.name for worker in node.workers if worker.name not in there):
        body: dict[str, Any] = {"apiVersion": "apps.kruise.io/v1beta1", "kind": "NodeImage",
                                "metadata": {"name": name}, "spec": {}}  # fmt: skip
        node.ask(NODE_IMAGES, "POST", body)
