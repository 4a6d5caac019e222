"""gitkruise sync: fetch, check, apply and report once, and leave."""

from __future__ import annotations

import asyncio
import os
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.at_hand import config_option
from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.output import list_of, say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb, duration_type
from gitkruise.errors import Finding, TimedOut, UsageProblem

if TYPE_CHECKING:
    from gitkruise.app import Running
    from gitkruise.gitops.once import Progress
    from gitkruise.kube.clock import Clock
    from gitkruise.model.config import Config
    from gitkruise.model.record import UnitRecord

_PAUSE_S: Final = 0.1


def _object_id(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """A whole id or nothing: a short one may be anybody's."""
    del context, parameter
    from gitkruise.git.refs import is_object_id  # noqa: PLC0415  only where it is given

    if value and not is_object_id(value):
        raise click.BadParameter("want the whole id of a commit: git rev-parse COMMIT")
    return value


@click.command(cls=Verb, exits=(1, 3, 4, 5, 6, 7, 130), says="with --wait: a rollout is stuck")
@click.argument("units", nargs=-1, metavar="[UNIT]…")
@config_option
@click.option("--wait", is_flag=True, help="Until the rollouts are as asked, too.")
@click.option("--accept-rewrite", metavar="COMMIT", default="", callback=_object_id,
              help="Follow history that was rewritten to this, whole, id.")  # fmt: skip
@click.option("--timeout", default="5m", show_default=True, callback=duration_type, help="At most.")
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@cluster_options
@click.pass_context
def sync(
    ctx: click.Context, /, units: tuple[str, ...], cluster: ClusterChoice, **flags: Any
) -> None:
    """Bring the cluster to what git asks now, once, without waiting for a running controller.

    \b
    Examples:
      gitkruise sync --sandbox
      gitkruise sync shop/web --context prod --wait --timeout 10m
      gitkruise sync -o json

    Does what `gitkruise run` does for one pass: checks signatures, applies, prunes, puts drift
    back, writes the outcome to git. Units that are not named take part, and are not waited for. Its
    dry run is gitkruise plan.
    """
    from gitkruise.gitops.config import load_config  # noqa: PLC0415  imports jsonschema

    config = _accepting(load_config(flags["config_path"]), flags["accept_rewrite"])
    given = {name: flags[name] for name in ("wait", "timeout", "output")}
    ctx.exit(
        asyncio.run(_sync(_Wishes(config=config, units=_chosen(config, units), **given), cluster))
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Wishes:
    config: Config
    units: frozenset[str]  # that are waited for; the others take part, as they depend on each other
    wait: bool
    timeout: str
    output: str


def _accepting(config: Config, commit: str) -> Config:
    """`config` with its sources led to `commit` by rewriting, if need be."""
    if not commit:
        return config
    import msgspec  # noqa: PLC0415  only where it is given

    sources = {
        name: msgspec.structs.replace(source, accepted=commit)
        for name, source in config.sources.items()
    }
    return msgspec.structs.replace(config, sources=sources)


def _chosen(config: Config, names: Sequence[str]) -> frozenset[str]:
    """Ids of the named units, or of all. Raises UsageProblem GK7040."""
    everybody = {u.id: u for u in config.units.values()}
    found = {u.id for u in everybody.values() if not names or {u.id, u.name} & set(names)}
    lost = [n for n in names if not any(n in {i, everybody[i].name} for i in found)]
    if lost:
        notes = (("there are", ", ".join(everybody) or "none"),)
        message = f"there is no unit {lost[0]}"
        raise UsageProblem(Finding(code="GK7040", message=message, notes=notes))
    return frozenset(found)


async def _sync(wishes: _Wishes, choice: ClusterChoice) -> int:
    from gitkruise.app import RunOptions, controller  # noqa: PLC0415  imports aiohttp and git
    from gitkruise.cli.progress import Teller  # noqa: PLC0415

    environment = read_environment()
    teller = Teller(Style.of_errors(environment))
    async with connected(choice, environment) as chosen:

        def report(record: UnitRecord) -> None:
            for line in teller.lines(record, chosen.clock.now()):
                tell(line)

        options = RunOptions(
            config=wishes.config,
            cluster=chosen.name,
            state_dir=environment.state_dir,
            identity=f"{platform.node()}-{os.getpid()}-sync",
            listeners=() if wishes.output == "json" else (report,),
            acts=False,
        )
        async with controller(options, chosen.transport, chosen.clock) as running:
            found = await _until(running, wishes, chosen.clock)
    style = Style.of(environment)
    if wishes.output == "json":
        say_json(list_of("SyncList", [_item(p) for p in found]), style)
    else:
        say(_lines(found, style), style)
    wrong = next((p.error for p in found if p.error is not None), None)
    if wrong is not None:
        return wrong.exit_code  # its findings were told as they came, or are in the document
    return 1 if any(p.stuck for p in found) and wishes.wait else 0


async def _until(running: Running, wishes: _Wishes, clock: Clock) -> list[Progress]:
    """Every unit's progress once each has come to its end. Raises TimedOut GK7019."""
    from gitkruise.wire.times import parse_duration  # noqa: PLC0415

    end = clock.monotonic() + parse_duration(wishes.timeout).total_seconds()
    while True:
        found = list(_progress(running, wishes, clock.now()))
        if all(p.error or (p.settled or p.stuck if wishes.wait else p.applied) for p in found):
            return found
        if clock.monotonic() >= end:
            raise TimedOut(_late(wishes, found))
        await clock.sleep(_PAUSE_S)


def _progress(running: Running, wishes: _Wishes, now: datetime) -> Iterator[Progress]:
    from gitkruise.gitops.once import progress_of  # noqa: PLC0415  imports the model
    from gitkruise.model.config import resolve_reference  # noqa: PLC0415

    for name, unit in running.units.items():
        if unit.unit.id not in wishes.units:
            continue
        source = resolve_reference(unit.unit.spec.source_ref, unit.unit.namespace)
        follower = running.followers[source]
        yield progress_of(unit, running.reporters[name], follower, running.standings, now)


def _late(wishes: _Wishes, found: Sequence[Progress]) -> Finding:
    open_ = [p for p in found if not (p.error or p.settled)]
    seen = "; ".join(f"{p.record.unit} is {p.record.state}: {p.record.message}" for p in open_)
    return Finding(
        code="GK7019",
        message=f"not {'as asked' if wishes.wait else 'applied'} after {wishes.timeout}",
        notes=(
            ("seen", seen or "nothing"),
            ("unchanged", "what was applied stays; what is left is done by gitkruise run"),
            ("next", "gitkruise status, or wait longer with --timeout"),
        ),
    )


def _lines(found: Sequence[Progress], style: Style) -> Iterator[str]:
    for p in found:
        yield f"{style.state(p.record.state)}  {p.record.unit}  {p.commit[:7]}  {p.record.message}"


def _item(p: Progress) -> dict[str, Any]:
    from gitkruise.cli.findings import finding_obj  # noqa: PLC0415

    return {
        "unit": p.record.unit,
        "cluster": p.record.cluster,
        "commit": p.commit,
        "applied": p.applied,
        "state": str(p.record.state),
        "message": p.record.message,
        "objects": len(p.record.objects),
        "findings": [finding_obj(f) for f in p.record.findings],
    }
