"""gitkruise version: what runs here."""

from __future__ import annotations

import platform

import click

from gitkruise import __version__


@click.command()
def version() -> None:
    """Print the versions of gitkruise and Python."""
    click.echo(f"gitkruise {__version__} (Python {platform.python_version()})")
