"""gitkruise agent: carry out what the API asks of the containers and images of one node."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, log_options
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.log_format import announce, log_to_stderr
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from gitkruise.agent.service import AgentOptions

SOCKET: Final = "/run/containerd/containerd.sock"


@click.command(cls=ExitCodesCommand, exits=(5,), serves=True)
@click.option("--node", default="", metavar="NAME",
              help="Name of the Node [default: the variable NODE_NAME].")  # fmt: skip
@click.option("--socket", default=SOCKET, show_default=True, metavar="PATH",
              help="Unix socket of the container runtime.")  # fmt: skip
@click.option("--max-pulls", default=0, type=click.IntRange(min=0), metavar="N",
              help="Images pulled at the same time [default: without limit].")  # fmt: skip
@log_options
@cluster_options
def agent(cluster: ClusterChoice, verbose: bool, node: str, socket: str, max_pulls: int) -> None:
    """Recreate containers and pull images on a node, as requests and NodeImages ask.

    \b
    Examples:
      gitkruise agent --node worker-1
      gitkruise agent --node worker-1 --socket /run/crio/crio.sock --context prod

    Run one agent per node, on the node: it stops containers over the runtime's socket, and kubelet
    starts them again; it pulls the images that the NodeImage of the node names; it reports what
    containers were started with, for updates in place of environment from labels. It replaces the
    daemon of OpenKruise; do not run both on a node.
    """
    log_to_stderr(logging.INFO if verbose else logging.WARNING)
    environment = read_environment()
    options = agent_options(environment, node=node, socket=socket, max_pulls=max_pulls)
    asyncio.run(_serve(options, cluster))


def agent_options(
    environment: Environment, *, node: str, socket: str, max_pulls: int = 0
) -> AgentOptions:
    """Parse the flags of the command. Raises UsageProblem GK5123 without a node."""
    from gitkruise.agent.service import AgentOptions  # noqa: PLC0415  imports gRPC

    name = node or environment.variables.get("NODE_NAME", "")
    if not name:
        message = "the agent does not know the name of its node"
        notes = (("next", "write --node NAME, or set NODE_NAME"),)
        raise UsageProblem(Finding(code="GK5123", message=message, notes=notes))
    return AgentOptions(node=name, socket=Path(socket), max_pulls=max_pulls)


async def _serve(options: AgentOptions, choice: ClusterChoice) -> None:
    from gitkruise.agent.service import agent as running_agent  # noqa: PLC0415
    from gitkruise.cli.console.signals import Startup  # noqa: PLC0415

    async with (
        Startup() as startup,
        connected(choice, read_environment()) as chosen,
        running_agent(options, chosen.transport, chosen.clock) as runtime,
    ):
        announce(
            f"agent of node {options.node} in cluster {chosen.name}:"
            f" {runtime.name} {runtime.version} at {options.socket}",
            "agent-started",
            node=options.node,
            cluster=chosen.name,
            runtime=f"{runtime.name} {runtime.version}",
            socket=options.socket,
        )
        startup.over = True
        await startup.stop.wait()
