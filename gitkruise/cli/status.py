"""gitkruise status: where every rollout and workload stands against git."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.at_hand import record_options, repository_at_hand, units_at_hand
from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.output import say, say_json
from gitkruise.cli.picking import parse_states
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb

if TYPE_CHECKING:
    from gitkruise.cli.status_view import Standing


@click.command(cls=Verb, exits=(1, 4, 5, 130), says="an object is in a state of --fail-on")
@click.option("-n", "--namespace", default="", help="Only this namespace.")
@click.option("-A", "--all-namespaces", is_flag=True, help="All namespaces (the default).")
@click.option("--state", "states", default="", metavar="stuck,held", help="Only these states.")
@click.option(
    "--fail-on", default="", metavar="stuck,…", help="Exit 1 when an object is in such a state."
)
@record_options
@click.option("-o", "--output", type=click.Choice(["text", "wide", "json"]), default="text")
@cluster_options
@click.pass_context
def status(ctx: click.Context, /, cluster: ClusterChoice, **flags: Any) -> None:
    """Show what gitkruise manages in a cluster and how it is doing.

    \b
    Examples:
      gitkruise status --sandbox
      gitkruise status -n shop --state stuck,held
      gitkruise status --fail-on stuck,rejected -o json

    What git asked for and what was rejected come from the status branch, where one is at hand.
    """
    failing, wanted = parse_states(flags["fail_on"]), parse_states(flags["states"])
    namespace = "" if flags["all_namespaces"] else flags["namespace"]
    at_hand = repository_at_hand(flags["config_path"], flags["repo"])
    standing = asyncio.run(_survey(cluster, namespace, at_hand))
    style = Style.of(read_environment())
    shown = standing.only(wanted)
    from gitkruise.cli.status_view import status_lines, status_obj  # noqa: PLC0415  the model

    if flags["output"] == "json":
        say_json(status_obj(shown), style)
    else:
        say(status_lines(shown, style, wide=flags["output"] == "wide"), style)
    ctx.exit(1 if standing.in_state(failing) else 0)


async def _survey(choice: ClusterChoice, namespace: str, at_hand: tuple[str, str]) -> Standing:
    from gitkruise.cli.status_view import stand  # noqa: PLC0415  imports the model
    from gitkruise.gitops.survey import WORKLOADS, Survey  # noqa: PLC0415  imports the schemas
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        survey = Survey(
            chosen.transport, load_catalog(), WORKLOADS, namespace=namespace, marked=True
        )
        await survey.look()
        now = chosen.clock.now()
        name, path = at_hand
        units = await asyncio.to_thread(units_at_hand, chosen.name, path) if path else []
        return stand(
            survey.managed(now), units, now, cluster=chosen.name, source=name, namespace=namespace
        )
