"""gitkruise status: compare every rollout and workload with git."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.console.command import ExitCodesCommand, wide_output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import say, say_json, say_on_stderr
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected, look, narrower
from gitkruise.cli.context.filters import parse_states
from gitkruise.cli.context.local_repository import (
    cluster_records,
    clusters_recording,
    fetch_records,
    history_at_hand,
    record_options,
    repository_at_hand,
    units_at_hand,
    warning_lines,
)
from gitkruise.cli.context.next_commands import lines_carrying
from gitkruise.errors import Finding, UsageProblem
from gitkruise.kube.system.lease_terms import SYNC_LEASE

if TYPE_CHECKING:
    from gitkruise.cli.views.clusters import ClustersView
    from gitkruise.cli.views.status import StatusView


@click.command(cls=ExitCodesCommand, exits=(1, 4, 5), says="an object is in a state of --fail-on")
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
@click.option(
    "--all-clusters", is_flag=True,
    help="Show the units of every cluster, as the status branches have them; asks no cluster.",
)  # fmt: skip
@record_options
@wide_output_option
@cluster_options
@click.pass_context
def status(ctx: click.Context, /, cluster: ClusterChoice, **flags: Any) -> None:
    """Show the objects that gitkruise manages in a cluster, and their states.

    \b
    Examples:
      gitkruise status --sandbox
      gitkruise status -n shop --state stuck,held
      gitkruise status --fail-on stuck,rejected -o json
      gitkruise status --all-clusters --repo ~/shop-deploy

    Requested and rejected commits are read from the status branch, if a repository is found, and
    from Units of the cluster.
    """
    failing, wanted = parse_states(flags["fail_on"]), parse_states(flags["states"])
    namespace = "" if flags["all_namespaces"] else flags["namespace"]
    source, path = repository_at_hand(flags["config_path"], flags["repo"])
    style = Style.of(read_environment())
    if flags["all_clusters"]:
        every = replace(_every_cluster(cluster, path), states=wanted, namespace=namespace)
        _show_clusters(every, flags["output"], style)
        ctx.exit(1 if every.in_state(failing) else 4 if every.unread else 0)
    view = result_of(_survey(cluster, namespace, source, path))
    shown = view.only(wanted)
    from gitkruise.cli.views.status import status_lines, status_obj  # noqa: PLC0415  the model

    if flags["output"] == "json":
        say_json(status_obj(shown), style)
    else:
        lines = status_lines(shown, style, wide=flags["output"] == "wide")
        say(lines_carrying(lines, cluster.flags), style)
    if view.in_state(failing):
        ctx.exit(1)
    ctx.exit(5 if failing and view.kinds_unread else 0)  # the state may be one that is not known


def _every_cluster(choice: ClusterChoice, path: str) -> ClustersView:
    """Fetch and read every status branch of the repository at `path`.

    Raises UsageProblem GK7010 with a cluster's flags, SourceFailed GK3103 without a repository,
    RecordMissing GK3205 without a branch.
    """
    from gitkruise.cli.views.clusters import ClustersView  # noqa: PLC0415  imports the model
    from gitkruise.git.repository.mirror import local_folder  # noqa: PLC0415  runs git
    from gitkruise.gitops.status.reader import unrecorded  # noqa: PLC0415  imports the model
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415  start-up budget

    if choice.given or choice.name:
        message = f"--all-clusters excludes {choice.flags}: it reads status branches"
        raise UsageProblem(Finding(code="GK7010", message=message))
    folder = path or str(local_folder("."))
    fetch_records(folder, "")
    records, warnings = cluster_records(folder, {})
    say_on_stderr([*warnings, *warning_lines(f for one in records.values() for f in one.unread)])
    if not records and not warnings:
        raise unrecorded()
    now = SystemClock().now()
    return ClustersView(records=tuple(records.values()), now=now, unread=len(warnings))


def _show_clusters(view: ClustersView, output: str, style: Style) -> None:
    from gitkruise.cli.views.clusters import clusters_lines, clusters_obj  # noqa: PLC0415

    if output == "json":
        say_json(clusters_obj(view), style)
    else:
        say(clusters_lines(view, style, wide=output == "wide"), style)


async def _survey(choice: ClusterChoice, namespace: str, source: str, path: str) -> StatusView:
    fix = narrower(everywhere=not namespace)
    async with connected(choice, read_environment(), if_forbidden=fix) as chosen:
        # Imported after the connection: without a cluster the command needs no schemas.
        from gitkruise.cli.views.status import build_view  # noqa: PLC0415  imports the model
        from gitkruise.gitops.cluster.engine import LEASE_NAMESPACE  # noqa: PLC0415
        from gitkruise.gitops.inspect.cluster_view import WORKLOADS, Survey  # noqa: PLC0415
        from gitkruise.gitops.inspect.shard_holders import read_holders  # noqa: PLC0415
        from gitkruise.gitops.inspect.unit_objects import read_unit_objects  # noqa: PLC0415
        from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

        survey = Survey(
            chosen.transport, load_catalog(), WORKLOADS, namespace=namespace, marked=True
        )
        await look(survey)
        now = chosen.clock.now()
        recorded = await asyncio.to_thread(units_at_hand, chosen.name, path) if path else []
        declared = await read_unit_objects(chosen.transport, chosen.name, namespace)
        shards = await read_holders(chosen.transport, LEASE_NAMESPACE, SYNC_LEASE, chosen.clock)
        view = build_view(
            survey.managed(now), declared.beside(recorded), now, units_unread=declared.unread,
            cluster=chosen.name, source=source, namespace=namespace, shards=shards,
        )  # fmt: skip
        with history_at_hand(path) as leads:
            view = await asyncio.to_thread(view.ordered_by, leads)
        elsewhere = await asyncio.to_thread(clusters_recording, view.unrecorded, path)
        unread = tuple(sorted(survey.left_out))
        return replace(view, elsewhere=elsewhere, kinds_unread=unread)
