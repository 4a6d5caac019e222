"""Output: data on standard output, progress on standard error, in what both can show."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

import click

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.style import Style
from gitkruise.printable import visible_lines
from gitkruise.wire.primitives.names import OWN_API

API_VERSION: Final = OWN_API


def say(lines: str | Iterable[str], style: Style) -> None:
    """Print data, line by line, on standard output."""
    for line in [lines] if isinstance(lines, str) else lines:
        click.echo(style.line(line), color=style.colour)


def say_on_stderr(lines: str | Iterable[str]) -> None:
    """Print progress and notes, line by line, on standard error."""
    style = Style.of_errors(read_environment())
    for line in [lines] if isinstance(lines, str) else lines:
        click.echo(style.line(line), err=True, color=style.colour)


def say_json(value: Mapping[str, Any], style: Style, *, line: bool = False) -> None:
    """Print one JSON document, indented unless it is one `line` of many."""
    import json  # noqa: PLC0415  not needed to print text

    indent = None if line else 2
    text = json.dumps(value, indent=indent, ensure_ascii=not style.unicode)
    click.echo(visible_lines(text), color=False)  # all line ends but ours are escaped


def say_yaml(value: Mapping[str, Any], style: Style) -> None:
    """Print one YAML document."""
    import yaml  # noqa: PLC0415  slow to import, and seldom needed

    text = yaml.safe_dump(value, sort_keys=False, allow_unicode=style.unicode, width=1000)
    if visible_lines(text) != text:  # YAML's own escapes for unprintable characters
        text = yaml.safe_dump(value, sort_keys=False, allow_unicode=False, width=1000)
    click.echo(text, nl=False, color=False)


def list_of(kind: str, items: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """Return a versioned list, the form of every `-o json` output with several items."""
    return {"apiVersion": API_VERSION, "kind": kind, "items": list(items)}
