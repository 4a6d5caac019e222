"""gitkruise version: print the versions of gitkruise and Python."""

from __future__ import annotations

import sys

import click

from gitkruise import __version__
from gitkruise.cli.console.command import ExitCodesCommand
from gitkruise.cli.console.environment import read_environment


@click.command(cls=ExitCodesCommand)
@click.option(
    "-o", "--output", type=click.Choice(["text", "json"]), default="text", help="Output format."
)
def version(output: str) -> None:
    """Print the versions of gitkruise and Python.

    \b
    Examples:
      gitkruise version
      gitkruise version -o json
    """
    python = ".".join(str(part) for part in sys.version_info[:3])
    if output == "json":
        from gitkruise.cli.console.output import API_VERSION, say_json  # noqa: PLC0415
        from gitkruise.cli.console.style import Style  # noqa: PLC0415

        answer = {"apiVersion": API_VERSION, "kind": "Version", "gitkruise": __version__}
        say_json({**answer, "python": python}, Style.of(read_environment()))
    else:
        click.echo(f"gitkruise {__version__} (Python {python})")
