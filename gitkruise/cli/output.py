"""Where words go: data to standard output, narration to standard error, in what both can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.style import Style

API_VERSION = "gitkruise.io/v1alpha1"


def say(lines: str | Iterable[str], style: Style) -> None:
    """Data, line by line, to standard output."""
    for line in [lines] if isinstance(lines, str) else lines:
        click.echo(style.plain(line), color=style.colour)


def tell(text: str) -> None:
    """Narration, to standard error."""
    style = Style.of_errors(read_environment())
    click.echo(style.plain(text), err=True, color=style.colour)


def say_json(value: Mapping[str, Any], style: Style, *, line: bool = False) -> None:
    """One JSON document, indented unless it is to be one `line` of many."""
    import json  # noqa: PLC0415  not needed to print text

    indent = None if line else 2
    click.echo(json.dumps(value, indent=indent, ensure_ascii=not style.unicode), color=False)


def say_yaml(value: Mapping[str, Any], style: Style) -> None:
    """One YAML document."""
    import yaml  # noqa: PLC0415  slow to import, and seldom needed

    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=style.unicode, width=1000)
    click.echo(text, nl=False, color=False)


def list_of(kind: str, items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """A versioned list, as every `-o json` answer of several things is."""
    return {"apiVersion": API_VERSION, "kind": kind, "items": list(items)}
