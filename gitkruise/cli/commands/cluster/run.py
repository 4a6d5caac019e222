"""gitkruise run: run the controller until a signal stops it."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.commands.inspect.dashboard import (
    PagesOptions,
    served_at,
    serving_pages,
    tls_options,
)
from gitkruise.cli.commands.inspect.dashboard_records import ReceivedRecords
from gitkruise.cli.console.command import (
    ExitCodesCommand,
    config_path_option,
    gates_option,
    lease_name,
    log_options,
    logs_json,
)
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.log_format import announce, log_to_stderr, print_events
from gitkruise.cli.console.output import say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.cli.context.local_repository import config_at_hand
from gitkruise.cli.context.next_commands import finding_carrying, joined, record_carrying
from gitkruise.kube.system.lease_terms import DURATION_S, SHARDS_MAX, SYNC_LEASE, UNSENT_WITHIN
from gitkruise.printable import many

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from gitkruise.app import RunningController, RunOptions
    from gitkruise.cli.console.environment import Environment
    from gitkruise.cli.context.cluster import ChosenCluster
    from gitkruise.errors import Finding
    from gitkruise.kube.system.clock import Clock
    from gitkruise.model.gitops.config import Config
    from gitkruise.model.gitops.record import UnitRecord
    from gitkruise.model.gitops.shards import Shard
    from gitkruise.webhook.service import WebhookOptions

LAST_S: Final = 5.0  # from the signal to the end of what talks to a remote


@click.command(cls=ExitCodesCommand, exits=(4, 5), serves=True)
@config_path_option(
    "File or directory with GitSource, Unit, Sink and Receiver documents, in addition to such "
    "objects of the cluster [default: gitkruise.yaml of the directory or its checkout, if it "
    "exists]."
)
@gates_option
@click.option(
    "--hooks",
    default="127.0.0.1:9292",
    show_default=True,
    metavar="HOST:PORT",
    help="Address on which Receivers listen for webhooks.",
)
@click.option(
    "--webhook",
    "webhook_listen",
    default="",
    metavar="HOST:PORT",
    help="Also serve the admission webhooks of `gitkruise webhook` on this address.",
)
@click.option(
    "--webhook-url",
    default="",
    metavar="https://…",
    help="URL at which API servers call the webhooks [default: the Service gitkruise-webhook].",
)
@click.option(
    "--metrics",
    default="",
    metavar="HOST:PORT",
    help="Address that serves /metrics, /healthz and /readyz [default: not served].",
)
@click.option(
    "--dashboard",
    default="",
    metavar="HOST:PORT",
    help="Address that serves the dashboard, of this machine unless there is TLS "
    "[default: not served].",
)
@tls_options
@click.option(
    "--no-cross-namespace-refs/--cross-namespace-refs",
    default=True,
    show_default=True,
    help="Forbid cross-namespace references between objects of the cluster.",
)
@click.option(
    "--default-service-account",
    default="",
    metavar="NAME",
    help="ServiceAccount of units in the cluster that name none.",
)
@click.option(
    "--lease",
    default=SYNC_LEASE,
    callback=lease_name,
    show_default=True,
    metavar="NAME",
    help="Lease in kube-system. Of the processes with one name, one is active; another name "
    "starts a second controller with its own units.",
)
@click.option(
    "--lease-duration",
    type=click.IntRange(3, 3_600),
    default=DURATION_S,
    show_default=True,
    metavar="SECONDS",
    help="Time after the last renewal at which another process takes over a lease.",
)
@click.option(
    "--shards",
    type=click.IntRange(1, SHARDS_MAX),
    default=1,
    show_default=True,
    metavar="NUMBER",
    help="Spread units and workloads over the replicas, in so many parts; the same number at each "
    "of them. With 1, one replica has them all.",
)
@click.option(
    "--local-sources",
    is_flag=True,
    help="With --sandbox: let GitSource objects of the cluster name folders of this machine.",
)
@log_options
@cluster_options
def run(
    config_path: Path | None,
    feature_gates: str,
    verbose: bool,
    cluster: ClusterChoice,
    **more: Any,
) -> None:
    """Run the controller: follow git, reconcile the cluster, record the outcome in git.

    \b
    Examples:
      gitkruise run --config gitkruise.yaml --sandbox
      gitkruise run --sandbox                             units from kubectl apply
      gitkruise run --sandbox --dashboard 127.0.0.1:8800
      gitkruise run --config /etc/gitkruise --kubeconfig kube.yaml --context prod

    Prints one line on standard error for each change of state; the status branch has the details.
    With --log-format json these lines are objects, too.
    """
    from gitkruise.app import RunOptions  # noqa: PLC0415  imports aiohttp and git
    from gitkruise.gitops.resources.declared import ResourceRules  # noqa: PLC0415  imports the model
    from gitkruise.kube.serve.addresses import parse_listen  # noqa: PLC0415  not for --help
    from gitkruise.model.workloads.feature_gates import parse_gates  # noqa: PLC0415  not for --help

    level = logging.INFO if verbose else logging.WARNING
    log_to_stderr(level)
    environment = read_environment()
    options = RunOptions(
        config=_config(config_path),
        cluster="",
        state_dir=environment.controller_dir(more["lease"]),
        identity=platform.node(),
        lease=more["lease"],
        lease_s=more["lease_duration"],
        gates=parse_gates(feature_gates),
        listen=parse_listen(more["hooks"]),
        metrics=parse_listen(more["metrics"], flag="--metrics") if more["metrics"] else None,
        webhook=_webhook(environment, feature_gates, more),
        custom=ResourceRules(
            cross_namespace=not more["no_cross_namespace_refs"],
            default_account=more["default_service_account"],
            local_sources=_local_sources(cluster, wanted=more["local_sources"]),
        ),
        processes=os.cpu_count() or 1,
    )
    pages = _pages(more, options)
    file, count = config_path or config_at_hand(), more["shards"]
    flags = joined(cluster.flags, config_path=config_path)
    asyncio.run(_run(options, cluster, file, pages, count=count, flags=flags))


def _pages(flags: Mapping[str, Any], options: RunOptions) -> PagesOptions | None:
    """Return the options of the dashboard; None without --dashboard. Raises UsageProblem."""
    if not flags["dashboard"]:
        if flags["tls_cert"] or flags["tls_key"]:
            raise click.UsageError("--tls-cert and --tls-key are for --dashboard")
        return None
    listen, tls = served_at(flags["dashboard"], flags, flag="--dashboard")
    sources = sorted(source.name for source in options.config.sources.values())
    repository = (", ".join(sources), "")
    return PagesOptions(listen=listen, tls=tls, repository=repository, received=ReceivedRecords())


def _local_sources(choice: ClusterChoice, *, wanted: bool) -> bool:
    """Others write to a real cluster, and may not read this machine through its objects."""
    if wanted and not choice.sandbox:
        raise click.UsageError("--local-sources is for the embedded cluster: add --sandbox")
    return wanted


def _config(path: Path | None) -> Config:
    """Load the named file, or gitkruise.yaml if it exists, or no configuration."""
    from gitkruise.gitops.config.loader import load_config  # noqa: PLC0415  imports jsonschema
    from gitkruise.model.gitops.config import Config  # noqa: PLC0415

    file = path or config_at_hand()
    return load_config(file) if path is not None or file.exists() else Config()


def _webhook(
    environment: Environment, feature_gates: str, listen: Mapping[str, str]
) -> WebhookOptions | None:
    """Return the options of the webhook server; None without --webhook."""
    if not listen["webhook_listen"]:
        return None
    from gitkruise.cli.commands.cluster.webhook import HOME, SERVICE, webhook_options  # noqa: PLC0415

    return webhook_options(
        environment,
        listen=listen["webhook_listen"],
        flag="--webhook",
        url=listen["webhook_url"],
        namespace=HOME,
        service=SERVICE,
        feature_gates=feature_gates,
    )


async def _run(
    options: RunOptions,
    choice: ClusterChoice,
    file: Path,
    pages: PagesOptions | None,
    *,
    count: int,
    flags: str,
) -> None:
    from gitkruise.cli.commands.cluster.config_news import file_changes_printed  # noqa: PLC0415
    from gitkruise.cli.console.signals import Startup  # noqa: PLC0415
    from gitkruise.git.plumbing.process import ENDING  # noqa: PLC0415  not for --help

    environment, loop = read_environment(), asyncio.get_running_loop()
    unsent_s = options.lease_s * UNSENT_WITHIN
    fix = "gitkruise doctor rbac --print-fix   prints what gitkruise run needs"
    async with (
        Startup(lambda: loop.call_later(LAST_S, ENDING.set)) as startup,
        connected(choice, environment, unsent_s=unsent_s, if_forbidden=fix) as chosen,
    ):
        report, report_problem = _reporters(chosen.clock, flags, options.lease)
        assert options.custom is not None
        rules = replace(options.custom, home=chosen.home)
        more = (pages.received.receive,) if pages and pages.received else ()
        options = replace(
            options, cluster=chosen.name, listeners=(report, *more), problems=report_problem,
            custom=rules,
        )  # fmt: skip
        async with _dashboard(chosen, pages), _controller(options, chosen, file, pages, count):
            startup.over = True
            async with file_changes_printed(options.config, chosen.clock):
                await startup.stop.wait()


@asynccontextmanager
async def _controller(
    options: RunOptions, chosen: ChosenCluster, file: Path, pages: PagesOptions | None, count: int
) -> AsyncIterator[None]:
    """Run the controller while the block runs: all of it, or the shards that this replica has."""
    from gitkruise.app import controller  # noqa: PLC0415  imports aiohttp and git
    from gitkruise.gitops.runtime.fleet_questions import RunningFleet  # noqa: PLC0415  imports the model

    transport, clock, units = chosen.transport, chosen.clock, len(options.config.units)
    if count == 1:
        async with controller(options, transport, clock) as running:
            if pages is not None and pages.received is not None:
                pages.received.fleet = RunningFleet(running.fleet, options.gates, clock)
            _announce(running, following(units, file, running.custom, chosen.name))
            yield
        return
    from gitkruise.sharding import sharded  # noqa: PLC0415  imports aiohttp and git

    def on_shard(shard: Shard, running: RunningController | None) -> None:
        if pages is not None and pages.received is not None:
            program = running.fleet if running is not None else None
            pages.received.receive_shard(shard, program, options.gates, clock)
        _shard_listener(shard, running)

    async with sharded(options, transport, clock, count=count, on_shard=on_shard) as shards:
        if pages is not None and pages.received is not None:
            pages.received.shards = shards
        announce(f"{count} shards are spread over the replicas", "started", shards=count)
        _announce_metrics(shards.metrics)
        yield


def _shard_listener(shard: Shard, running: RunningController | None) -> None:
    if running is None:
        announce(f"shard {shard} is handed back", "shard-handed-back", shard=shard.number)
        return
    units = many(len(running.fleet.config.units), "unit")
    text = f"shard {shard} runs here: engine {running.engine}, following {units}"
    announce(text, "shard-started", shard=shard.number, engine=running.engine, following=units)
    _announce_hooks(running)


def _reporters(
    clock: Clock, flags: str, lease: str
) -> tuple[Callable[[UnitRecord], None], Callable[[tuple[str, str], Finding | None], None]]:
    """Return the listeners that print records and problems, in the format of the log; commands
    that these recommend have the flags of this one."""
    from gitkruise.cli.views.progress import ProgressEvents, ProgressLines  # noqa: PLC0415

    def own(record: UnitRecord) -> UnitRecord:
        return record_carrying(record, flags, lease=lease)

    def of(finding: Finding | None) -> Finding | None:
        return finding and finding_carrying(finding, flags, lease=lease)

    if logs_json():
        events = ProgressEvents()
        return (
            lambda record: print_events(events.of(own(record))),
            lambda name, finding: print_events(events.problem(name, of(finding))),
        )
    lines = ProgressLines(Style.of_errors(read_environment()))
    return (
        lambda record: say_on_stderr(lines.lines(own(record), clock.now())),
        lambda name, finding: say_on_stderr(lines.problem(name, of(finding), clock.now())),
    )


@asynccontextmanager
async def _dashboard(chosen: ChosenCluster, pages: PagesOptions | None) -> AsyncIterator[None]:
    """Serve the dashboard while the block runs, also while this process does not lead."""
    if pages is None:
        yield
        return
    async with serving_pages(chosen, pages, read_environment()) as url:
        announce(f"dashboard at {url}", "dashboard-served", url=url)
        yield


def following(units: int, file: Path, custom: int | None, cluster: str) -> str:
    """Return the words for the units that are followed: `units` of `file`, `custom` of the cluster;
    None if these are not known."""
    if not units and not custom:
        here = f"{file} has no Unit" if file.exists() else f"{file} does not exist"
        there = f"cluster {cluster} has none" if custom == 0 else f"those of {cluster} are unknown"
        return (
            f"no unit yet: {here}, and {there}; "
            "next: name a file with --config, or kubectl apply a GitSource and a Unit"
        )
    if custom is None:
        return f"{many(units, 'unit')} of {file} for cluster {cluster}"
    parts = [f"{many(units, 'unit')} of {file}"] if units else []
    return " and ".join([*parts, f"{many(custom, 'unit')} of cluster {cluster}"])


def _announce(running: RunningController, units: str) -> None:
    engine = running.engine
    announce(f"engine {engine}, following {units}", "started", engine=engine, following=units)
    _announce_metrics(running.metrics)
    _announce_hooks(running)


def _announce_metrics(url: str) -> None:
    if url:
        announce(f"metrics at {url}", "metrics-served", url=url)


def _announce_hooks(running: RunningController) -> None:
    for name, url in running.hooks.items():
        text = f"receiver {name} listens at {url}"
        announce(text, "receiver-served", receiver=name, url=url)
