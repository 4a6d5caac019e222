"""gitkruise version: print the versions of gitkruise, Python and the cluster."""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING, Any

import click

from gitkruise import __version__
from gitkruise.cli.console.command import OUTPUT_KEY, ExitCodesCommand, output_option
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.errors import GitkruiseError

if TYPE_CHECKING:
    from gitkruise.cli.context.installed_from import InstalledFrom

_COMMIT = 12  # shown digits of an id


@click.command(cls=ExitCodesCommand, exits=(5,))
@click.option("--client", is_flag=True, help="Ask no cluster.")
@output_option
@cluster_options
def version(*, client: bool, output: str, cluster: ClusterChoice) -> None:
    """Print the versions of gitkruise, Python and the cluster's API server.

    \b
    Examples:
      gitkruise version
      gitkruise version --client
      gitkruise version --context prod -o json
    """
    from gitkruise.cli.context.installed_from import installed_from  # noqa: PLC0415  imports git

    environment = read_environment()
    source = installed_from(environment.variables)
    server, failure = ("", None) if client else _asked(cluster, environment)
    if output == "json":
        _say_json(source, server, environment)
    else:
        click.echo(_about(source))
        if server:
            click.echo(f"Kubernetes {server}")
    if failure is not None:
        click.get_current_context().meta[OUTPUT_KEY] = "text"  # the document was printed
        raise failure


def _asked(choice: ClusterChoice, environment: Environment) -> tuple[str, GitkruiseError | None]:
    """The version of the API server, or why it is not known: the rest is printed before."""
    try:
        return asyncio.run(_server_version(choice, environment)), None
    except GitkruiseError as error:
        return "", error


async def _server_version(choice: ClusterChoice, environment: Environment) -> str:
    from gitkruise.kube.client.discovery import server_version  # noqa: PLC0415  imports msgspec

    async with connected(choice, environment) as chosen:
        return await server_version(chosen.transport)


def _python() -> str:
    return ".".join(str(part) for part in sys.version_info[:3])


def _about(source: InstalledFrom) -> str:
    changed = " with changes" if source.changed else ""
    commit = f"commit {source.commit[:_COMMIT]}{changed}, " if source.commit else ""
    return f"gitkruise {__version__} ({commit}Python {_python()})"


def _say_json(source: InstalledFrom, server: str, environment: Environment) -> None:
    from gitkruise.cli.console.output import API_VERSION, say_json  # noqa: PLC0415
    from gitkruise.cli.console.style import Style  # noqa: PLC0415

    answer: dict[str, Any] = {
        "apiVersion": API_VERSION,
        "kind": "Version",
        "gitkruise": __version__,
        "python": _python(),
    }
    if source.commit:
        answer |= {"commit": source.commit, "changed": source.changed}
    if server:
        answer["kubernetes"] = server
    say_json(answer, Style.of(environment))
