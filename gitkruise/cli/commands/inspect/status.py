"""gitkruise status: compare every rollout and workload with git."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import say, say_json
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.filters import parse_states
from gitkruise.cli.context.local_repository import record_options, repository_at_hand, units_at_hand
from gitkruise.cli.context.next_commands import lines_carrying

if TYPE_CHECKING:
    from gitkruise.cli.views.status import StatusView


@click.command(
    cls=ExitCodesCommand, exits=(1, 4, 5, 130), says="an object is in a state of --fail-on"
)
@click.option("-n", "--namespace", default="", help="Namespace to show [default: all].")
@click.option("-A", "--all-namespaces", is_flag=True, help="Show all namespaces [the default].")
@click.option(
    "--state", "states", default="", metavar="stuck,held", help="States to show [default: all]."
)
@click.option(
    "--fail-on",
    default="",
    metavar="stuck,…",
    help="States of an object or unit that make the command exit with 1.",
)
@record_options
@click.option(
    "-o",
    "--output",
    type=click.Choice(["text", "wide", "json"]),
    default="text",
    help="Output format.",
)
@cluster_options
@click.pass_context
def status(ctx: click.Context, /, cluster: ClusterChoice, **flags: Any) -> None:
    """Show the objects that gitkruise manages in a cluster, and their states.

    \b
    Examples:
      gitkruise status --sandbox
      gitkruise status -n shop --state stuck,held
      gitkruise status --fail-on stuck,rejected -o json

    Requested and rejected commits are read from the status branch, if a repository is found.
    """
    failing, wanted = parse_states(flags["fail_on"]), parse_states(flags["states"])
    namespace = "" if flags["all_namespaces"] else flags["namespace"]
    source, path = repository_at_hand(flags["config_path"], flags["repo"])
    view = asyncio.run(_survey(cluster, namespace, source, path))
    style = Style.of(read_environment())
    shown = view.only(wanted)
    from gitkruise.cli.views.status import status_lines, status_obj  # noqa: PLC0415  the model

    if flags["output"] == "json":
        say_json(status_obj(shown), style)
    else:
        lines = status_lines(shown, style, wide=flags["output"] == "wide")
        say(lines_carrying(lines, cluster.flags), style)
    ctx.exit(1 if view.in_state(failing) else 0)


async def _survey(choice: ClusterChoice, namespace: str, source: str, path: str) -> StatusView:
    async with connected(choice, read_environment()) as chosen:
        # Imported after the connection: without a cluster the command needs no schemas.
        from gitkruise.cli.views.status import build_view  # noqa: PLC0415  imports the model
        from gitkruise.gitops.inspect.cluster_view import WORKLOADS, Survey  # noqa: PLC0415
        from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

        survey = Survey(
            chosen.transport, load_catalog(), WORKLOADS, namespace=namespace, marked=True
        )
        await survey.look()
        now = chosen.clock.now()
        units = await asyncio.to_thread(units_at_hand, chosen.name, path) if path else []
        return build_view(
            survey.managed(now), units, now, cluster=chosen.name, source=source, namespace=namespace
        )
