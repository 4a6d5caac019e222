"""gitkruise dashboard: pages of a cluster in a browser of this machine."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.output import say
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import (
    cluster_records,
    record_options,
    repository_at_hand,
    why_stale,
)
from gitkruise.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.cli.views.dashboard import ClusterSource
    from gitkruise.kube.serve.addresses import Listen

LISTEN: Final = "127.0.0.1:8800"
_LOOK_S, _RECORDS_S = 1.0, 2.0


@click.command(cls=ExitCodesCommand, exits=(4, 5))
@click.option("--listen", default=LISTEN, show_default=True, metavar="HOST:PORT",
              help="Address on this machine to listen on; port 0 is any free one.")  # fmt: skip
@click.option("--open", "opens", is_flag=True, help="Open the page in the browser.")
@record_options
@cluster_options
def dashboard(cluster: ClusterChoice, listen: str, *, opens: bool, **flags: Any) -> None:
    """Show rollouts, pods, commits, plans and drift on live pages, until Ctrl-C.

    \b
    Examples:
      gitkruise dashboard --sandbox
      gitkruise dashboard --context prod --open

    The pages change nothing: they show the commands that would. The address that the command
    prints contains a token, which only users of this machine who know it can use.
    """
    from gitkruise.kube.serve.addresses import parse_listen  # noqa: PLC0415  not for --help

    where = parse_listen(listen, flag="--listen")
    if not where.loopback:
        message = f"--listen {listen}: the dashboard serves browsers of this machine only"
        notes = (
            ("why", "its users share one token, and the port has no TLS"),
            ("next", f"write --listen {LISTEN}, and forward the port: ssh -L 8800:{LISTEN} HOST"),
        )
        raise UsageProblem(Finding(code="GK7054", message=message, notes=notes))
    name, path = repository_at_hand(flags["config_path"], flags["repo"])
    shown = _Shown(name, path, flags["config_path"])
    asyncio.run(_serve(cluster, where, shown, opens=opens))


@dataclass(frozen=True, slots=True)
class _Shown:
    """The repository, by name and path ("" without one), and the file with its configuration."""

    name: str
    path: str
    config_path: Path | None


async def _serve(choice: ClusterChoice, listen: Listen, shown: _Shown, *, opens: bool) -> None:
    from gitkruise.cli.console.signals import stop_event  # noqa: PLC0415
    from gitkruise.dashboard.server import serve_dashboard  # noqa: PLC0415  imports aiohttp
    from gitkruise.kube.system.clock import SystemClock  # noqa: PLC0415

    environment, stop = read_environment(), stop_event()
    async with connected(choice, environment) as chosen:
        source = await _source(chosen, shown)
        token = await asyncio.to_thread(dashboard_token, environment)
        async with serve_dashboard(source, listen, token, SystemClock()) as url:
            say([url], Style.of(environment))
            if opens:
                await asyncio.to_thread(click.launch, url)
            async with asyncio.TaskGroup() as tasks:
                following = (
                    tasks.create_task(source.survey.follow(SystemClock())),
                    tasks.create_task(_look(source)),
                    tasks.create_task(_read_records(source, shown.path)),
                )
                await stop.wait()
                for task in following:
                    task.cancel()


async def _source(chosen: ChosenCluster, shown: _Shown) -> ClusterSource:
    from gitkruise.cli.commands.inspect.dashboard_answers import Answers  # noqa: PLC0415
    from gitkruise.cli.commands.inspect.why import ask, why_document  # noqa: PLC0415
    from gitkruise.cli.context.local_repository import known_records  # noqa: PLC0415
    from gitkruise.cli.views.dashboard import ClusterSource  # noqa: PLC0415  imports the schemas
    from gitkruise.gitops.inspect.cluster_view import EVENT, WORKLOADS, Managed, Survey  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    kinds = (*WORKLOADS, EVENT)
    survey = Survey(chosen.transport, load_catalog(), kinds, marked=True)

    async def explained(found: Managed) -> dict[str, Any]:
        commits = frozenset({found.commit})
        records = await asyncio.to_thread(known_records, chosen.name, shown.path, commits)
        answer, activity = await ask(chosen, survey, found, records)
        return why_document(answer, activity, records)

    await survey.look()
    answers = Answers(chosen, shown.path, shown.config_path).find_out
    return ClusterSource(survey, chosen.clock, chosen.name, shown.name, explained, answers)


async def _look(source: ClusterSource) -> None:
    """Notice every second whether the cluster can be followed."""
    while True:
        source.look()
        await asyncio.sleep(_LOOK_S)


async def _read_records(source: ClusterSource, path: str) -> None:
    """Read the records of units again and again, if there is a repository."""
    from gitkruise.cli.views.history import Journal  # noqa: PLC0415  imports the model

    while path:
        known = source.journal.records
        stale = await asyncio.to_thread(why_stale, path, source.cluster)
        records, warnings = await asyncio.to_thread(cluster_records, path, known)
        stale = [*warnings, *stale]
        if dict(records) != dict(known):
            source.journal = await asyncio.to_thread(Journal, records)
            mine = records.get(source.cluster)
            source.units = list(mine.units) if mine is not None else []
            source.changed.set()
        if stale != source.stale:
            source.stale = stale
            source.changed.set()
        await asyncio.sleep(_RECORDS_S)


def dashboard_token(environment: Environment) -> str:
    """Return the token of this user, which stays the same, so that open pages stay usable."""
    from gitkruise.kube.system.private_files import read_state, write_private  # noqa: PLC0415

    path = environment.state_dir / "dashboard" / "token"
    found = read_state(path)
    if found is None:
        found = secrets.token_urlsafe(32).encode()
        write_private(path, found)
    return found.decode()
