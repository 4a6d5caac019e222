"""Explanation of a unit, by its record or by the status of its object."""

from __future__ import annotations

import asyncio
import textwrap
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import API_VERSION, say, say_json
from gitkruise.cli.console.signals import result_of
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, connected
from gitkruise.cli.context.local_repository import records_at_hand
from gitkruise.cli.context.next_commands import lines_carrying
from gitkruise.errors import ClusterFailed, Finding
from gitkruise.printable import listing
from gitkruise.wire.primitives.names import OWN_GROUP, named

if TYPE_CHECKING:
    from gitkruise.gitops.status.reader import RecordedUnit

_NAMED: Final = 8
_OBJECTS: Final = 5


def why_unit(name: str, choice: ClusterChoice, namespace: str, path: str, *, as_json: bool) -> None:
    """Print what a unit waits for. Raises ClusterFailed GK4010 without one."""
    unit = result_of(_read(name, choice, namespace, path))
    style = Style.of(read_environment())
    if as_json:
        say_json(unit_why_obj(unit), style)
    else:
        say(lines_carrying(unit_why_lines(unit, style), choice.flags), style)


async def _read(name: str, choice: ClusterChoice, namespace: str, path: str) -> RecordedUnit:
    from gitkruise.gitops.inspect.unit_objects import read_unit_objects  # noqa: PLC0415  the model

    async with connected(choice, read_environment()) as chosen:
        records = await asyncio.to_thread(records_at_hand, chosen.name, path, frozenset())
        space = namespace or chosen.namespace
        objects = await read_unit_objects(chosen.transport, chosen.name, space)
        units = objects.beside(records.units)
        found = next((unit for unit in units if unit.unit == f"{space}/{name}"), None)
    if found is None:
        raise _absent(name, space, units)
    return found


def _absent(name: str, namespace: str, units: Sequence[RecordedUnit]) -> ClusterFailed:
    there = sorted(unit.unit for unit in units)
    notes = (
        ("there are", listing(there, _NAMED) if there else "none"),
        ("next", "gitkruise status lists the units with their problems"),
    )
    message = f'Unit "{name}" not found in namespace {namespace}'
    return ClusterFailed(Finding(code="GK4010", message=message, notes=notes))


def reasons_of(unit: RecordedUnit) -> list[str]:
    """Return what keeps a unit from the state that its newest commit asks for, most urgent first;
    none for a unit in order."""
    from gitkruise.model.gitops.unit_state import READY  # noqa: PLC0415  the model

    newest = f"commit {unit.attempted.short}" if unit.attempted is not None else "the newest commit"
    waits = [f"{newest} waits for {unit.waits}"] if unit.waits else []
    objects = [
        f"{named(one.key)} is {one.state}: {one.message}" if one.message
        else f"{named(one.key)} is {one.state}"
        for one in unit.objects.values()
        if one.state not in READY
    ]  # fmt: skip
    found = [*waits, *unit.shown_problems, *objects[:_OBJECTS]]
    has_message = unit.message and not waits and unit.state not in READY
    if has_message and not any(unit.message.partition(": ")[2] in reason for reason in found):
        found.insert(0, unit.message)
    return found


def unit_why_lines(unit: RecordedUnit, style: Style) -> Iterator[str]:
    """Yield the state of a unit, the reasons, the next step, and its commits."""
    room = max(style.width - 5, 30)
    namespace, _, name = unit.unit.partition("/")
    yield f"{style.paint(f'unit/{name} -n {namespace}', 'bold')} is {style.state(unit.state)}"
    reasons = reasons_of(unit)
    for number, reason in enumerate(reasons, 1):
        first, *more = textwrap.wrap(reason, room, break_long_words=False) or [""]
        yield f"{number:>3}  {first}"
        yield from (f"     {line}" for line in more)
    if not reasons:
        yield f"     nothing holds it: {unit.message or 'it is as git asks'}"
    if next_ := unit.correction or unit.next:
        yield f"What would move it:  {next_}"
    yield ""
    for label, commit in (("newest", unit.attempted), ("live", unit.causal or unit.applied)):
        if commit is not None:
            subject = f' "{commit.subject}"' if commit.subject else ""
            yield f"{label:<8} {commit.short}{subject}"


def unit_why_obj(unit: RecordedUnit) -> dict[str, Any]:
    """Return the explanation as a versioned document."""
    namespace, _, name = unit.unit.partition("/")
    live = unit.causal or unit.applied
    next_ = unit.correction or unit.next
    return {
        "apiVersion": API_VERSION,
        "kind": "Why",
        "object": {"group": OWN_GROUP, "kind": "Unit", "namespace": namespace, "name": name},
        "state": str(unit.state),
        "message": unit.message,
        "reasons": reasons_of(unit),
        "next": [next_] if next_ else [],
        "attempted": unit.attempted.id if unit.attempted is not None else "",
        "commit": live.id if live is not None else "",
    }
