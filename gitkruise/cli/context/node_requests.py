"""Requests to node agents on the command line: shown, created, followed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import timeout_option, with_options
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import say, say_json, say_on_stderr, say_yaml
from gitkruise.cli.console.style import Style

if TYPE_CHECKING:
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.wire.primitives.names import Obj
    from gitkruise.wire.primitives.requests import ResourceRef

request_options: Final = with_options(
    click.option("--any-agent", is_flag=True, help="Do not look for the node agent first."),
    click.option(
        "--dry-run", is_flag=True, help="Send a dry run and show the effect; create nothing."
    ),
    click.option("--wait", is_flag=True, help="Wait for the end."),
    timeout_option("Time limit of --wait."),
    click.option(
        "-o",
        "--output",
        type=click.Choice(["text", "json", "yaml", "name"]),
        default="text",
        help="Output format; json and yaml are the objects.",
    ),
)


async def carry_out(
    chosen: ChosenCluster,
    resource: ResourceRef,
    admitted: Sequence[Obj],
    create: Callable[[], Awaitable[Sequence[Obj]]],
    flags: dict[str, Any],
) -> int:
    """Create the objects unless a dry run is asked for, and follow them; return the exit code.

    `admitted` are the objects as the dry run of the server gave them.
    """
    output = flags["output"]
    if flags["dry_run"]:
        _show(output, admitted, dry_run=True)
        return 0
    made = await create()
    if output == "text":
        _show(output, made, dry_run=False)
    seen, failed = await _finish(chosen, resource, made, flags)
    if output != "text":
        _show(output, seen, dry_run=False)
    return 1 if failed else 0


async def _finish(
    chosen: ChosenCluster,
    resource: ResourceRef,
    created: Sequence[Obj],
    flags: dict[str, Any],
) -> tuple[list[Obj], bool]:
    """Wait if asked to; return the objects as last seen, and whether one failed."""
    if not flags["wait"]:
        return list(created), False
    from gitkruise.gitops.node.follow import follow  # noqa: PLC0415  imports the model
    from gitkruise.model.gitops.health import Health, Phase  # noqa: PLC0415
    from gitkruise.wire.primitives.names import ObjectKey  # noqa: PLC0415
    from gitkruise.wire.primitives.times import parse_duration  # noqa: PLC0415

    def on_state(key: ObjectKey, state: Health) -> None:
        say_on_stderr(f"{key.kind.lower()}/{key.name}  {state.message or state.phase}")

    limit = (flags["timeout"], parse_duration(flags["timeout"]).total_seconds())
    ended = await follow(chosen.transport, chosen.clock, resource, created, limit, on_state)
    failed = any(state.phase is not Phase.CURRENT for _, state in ended)
    return [obj for obj, _ in ended], failed


def show_effect(output: str, lines: Iterable[str], warnings: Iterable[str]) -> None:
    """Print the effect of a request, on standard output with -o text; warnings never there."""
    if output == "text":
        say(lines, Style.of(read_environment()))
    say_on_stderr(f"warning: {text}" for text in warnings)


def _show(output: str, objects: Sequence[Obj], *, dry_run: bool) -> None:
    """Print objects in the format of -o; as text their names and what was done."""
    style = Style.of(read_environment())
    names = [_name(obj) for obj in objects]
    if output in {"json", "yaml"}:
        whole = objects[0] if len(objects) == 1 else _list(objects)
        (say_json if output == "json" else say_yaml)(whole, style)
    elif output == "name":
        say(names, style)
    elif dry_run:
        say_on_stderr("dry run: nothing was created")
    else:
        say((f"created  {name}" for name in names), style)


def _list(objects: Sequence[Obj]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


def _name(obj: Obj) -> str:
    meta = obj["metadata"]
    return f"{obj['kind'].lower()}/{meta.get('name') or meta.get('generateName', '')}"
