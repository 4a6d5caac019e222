"""gitkruise sync: fetch, check, apply and report once, then exit."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import (
    ExitCodesCommand,
    lease_name,
    output_option,
    timeout_option,
)
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import list_of, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import config_option
from gitkruise.cli.context.next_commands import finding_carrying, joined, record_carrying
from gitkruise.cli.context.resource_args import unit_ids
from gitkruise.errors import Finding, TimedOut, UsageProblem
from gitkruise.kube.system.lease_terms import SYNC_LEASE

if TYPE_CHECKING:
    from pathlib import Path

    from gitkruise.app import RunningController
    from gitkruise.gitops.runtime.progress import Progress
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.record import UnitRecord

_PAUSE_S: Final = 0.1


def _object_id(context: click.Context, parameter: click.Parameter, value: str) -> str:
    """Accept a full commit id only: a short one may match another commit later."""
    del context, parameter
    from gitkruise.git.plumbing.refs import is_object_id  # noqa: PLC0415  only where it is given

    if value and not is_object_id(value):
        raise click.BadParameter("must be a full commit id: git rev-parse COMMIT")
    return value


@click.command(
    cls=ExitCodesCommand, exits=(1, 3, 4, 5, 6, 7), says="with --wait: a rollout is stuck"
)
@click.argument("units", nargs=-1, metavar="[UNIT]…", shell_complete=unit_ids)
@config_option
@click.option(
    "--wait", is_flag=True, help="Also wait until the rollouts reach the requested state."
)
@click.option("--accept-rewrite", metavar="COMMIT", default="", callback=_object_id,
              help="Accept rewritten history whose tip is this full commit id.")  # fmt: skip
@timeout_option()
@click.option("--lease", default=SYNC_LEASE, callback=lease_name, show_default=True, metavar="NAME",
              help="Lease as for gitkruise run; a running controller yields.")  # fmt: skip
@output_option
@cluster_options
@click.pass_context
def sync(
    ctx: click.Context, /, units: tuple[str, ...], cluster: ClusterChoice, **flags: Any
) -> None:
    """Reconcile the cluster with git once, without waiting for a running controller.

    \b
    Examples:
      gitkruise sync --sandbox
      gitkruise sync shop/web --context prod --wait --timeout 10m
      gitkruise sync -o json

    Does one pass of `gitkruise run`: verifies signatures, applies, prunes, corrects drift and
    records the outcome in git. Other units are reconciled as well, but the command does not wait
    for them. For a dry run use gitkruise plan.
    """
    from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema

    config = _accepting(load_config(flags["config_path"]), flags["accept_rewrite"])
    given = {name: flags[name] for name in ("wait", "timeout", "output", "lease")}
    given["flags"] = joined(cluster.flags, config_path=flags["config_path"])
    ctx.exit(
        asyncio.run(
            _sync(_SyncOptions(config=config, units=_chosen(config, units), **given), cluster)
        )
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SyncOptions:
    config: Config
    units: frozenset[
        str
    ]  # to wait for; the others are reconciled too, because units depend on each other
    wait: bool
    timeout: str
    output: str
    lease: str
    flags: str  # those of this command, for the ones that it recommends

    def recommending(self, record: UnitRecord) -> UnitRecord:
        """Return a record that recommends commands with the flags of this one."""
        return record_carrying(record, self.flags, lease=self.lease)


def _accepting(config: Config, commit: str) -> Config:
    """Let every source of `config` accept history that was rewritten to `commit`."""
    if not commit:
        return config
    import msgspec  # noqa: PLC0415  only where it is given

    sources = {
        name: msgspec.structs.replace(source, accepted=commit)
        for name, source in config.sources.items()
    }
    return msgspec.structs.replace(config, sources=sources)


def _chosen(config: Config, names: Sequence[str]) -> frozenset[str]:
    """Return the ids of the named units, or of all. Raises UsageProblem GK7040."""
    units_by_id = {u.id: u for u in config.units.values()}
    found = {u.id for u in units_by_id.values() if not names or {u.id, u.name} & set(names)}
    lost = [n for n in names if not any(n in {i, units_by_id[i].name} for i in found)]
    if lost:
        notes = (("there are", ", ".join(units_by_id) or "none"),)
        message = f"there is no unit {lost[0]}"
        raise UsageProblem(Finding(code="GK7040", message=message, notes=notes))
    return frozenset(found)


async def _sync(options: _SyncOptions, choice: ClusterChoice) -> int:
    from gitkruise.app import RunOptions, controller  # noqa: PLC0415  imports aiohttp and git
    from gitkruise.cli.views.progress import ProgressLines  # noqa: PLC0415

    environment = read_environment()
    progress_lines = ProgressLines(Style.of_errors(environment))
    async with connected(choice, environment) as chosen:

        def report(record: UnitRecord) -> None:
            advised = options.recommending(record)
            for line in progress_lines.lines(advised, chosen.clock.now()):
                say_on_stderr(line)

        run_options = RunOptions(
            config=options.config,
            cluster=chosen.name,
            state_dir=_state_dir(environment.controller_dir(options.lease)),
            identity=f"{platform.node()}-sync",
            lease=options.lease,
            listeners=() if options.output == "json" else (report,),
            acts=False,
        )
        async with controller(run_options, chosen.transport, chosen.clock) as running:
            found = await _until(running, options, chosen.clock)
    found = [replace(p, record=options.recommending(p.record)) for p in found]
    style = Style.of(environment)
    if options.output == "json":
        say_json(list_of("SyncList", [_item(p) for p in found]), style)
    else:
        say(_lines(found, style), style)
    wrong = next((p.error for p in found if p.error is not None), None)
    if wrong is not None:
        return wrong.exit_code  # its findings were printed on arrival, or are in the document
    return 1 if any(p.stuck for p in found) and options.wait else 0


def _state_dir(chosen: Path) -> Path:
    """Return the state directory, or one inside it while a controller uses it."""
    from gitkruise.kube.system.state_lock import is_taken  # noqa: PLC0415  only for a pass

    return chosen / "by-hand" if is_taken(chosen) else chosen


async def _until(running: RunningController, options: _SyncOptions, clock: Clock) -> list[Progress]:
    """Return the progress of every unit once each has ended. Raises TimedOut GK7019."""
    from gitkruise.wire.primitives.times import parse_duration  # noqa: PLC0415

    end = clock.monotonic() + parse_duration(options.timeout).total_seconds()
    while True:
        found = list(_progress(running, options, clock.now()))
        if all(p.error or (p.settled or p.stuck if options.wait else p.applied) for p in found):
            return found
        if clock.monotonic() >= end:
            raise TimedOut(_late(options, found))
        await clock.sleep(_PAUSE_S)


def _progress(
    running: RunningController, options: _SyncOptions, now: datetime
) -> Iterator[Progress]:
    from gitkruise.gitops.runtime.progress import progress_of  # noqa: PLC0415  imports the model
    from gitkruise.model.gitops.config import resolve_reference  # noqa: PLC0415

    for name, unit in running.units.items():
        if unit.unit.id not in options.units:
            continue
        source = resolve_reference(unit.unit.spec.source_ref, unit.unit.namespace)
        follower = running.followers[source]
        yield progress_of(unit, running.reporters[name], follower, running.standings, now)


def _late(options: _SyncOptions, found: Sequence[Progress]) -> Finding:
    open_ = [p for p in found if not (p.error or p.settled)]
    seen = "; ".join(f"{p.record.unit} is {p.record.state}: {p.record.message}" for p in open_)
    finding = Finding(
        code="GK7019",
        message=f"not {'rolled out' if options.wait else 'applied'} after {options.timeout}",
        notes=(
            ("seen", seen or "nothing"),
            ("unchanged", "applied objects stay; gitkruise run continues with the rest"),
            ("next", "gitkruise status, or wait longer with --timeout"),
        ),
    )
    return finding_carrying(finding, options.flags)


def _lines(found: Sequence[Progress], style: Style) -> Iterator[str]:
    for p in found:
        yield f"{style.state(p.record.state)}  {p.record.unit}  {p.commit[:7]}  {p.record.message}"


def _item(p: Progress) -> dict[str, Any]:
    from gitkruise.cli.console.findings import finding_obj  # noqa: PLC0415

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
