"""gitkruise run: the controller proper, until it is told to stop."""

from __future__ import annotations

import asyncio
import logging
import os
import platform
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.output import tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from gitkruise.app import RunOptions
    from gitkruise.cli.config import Environment
    from gitkruise.model.config import Config
    from gitkruise.model.record import UnitRecord
    from gitkruise.webhook.service import WebhookOptions


@click.command(cls=Verb, exits=(4, 5))
@click.option(
    "--config",
    "config_path",
    type=click.Path(path_type=Path),
    help="File or directory with GitSource, Unit, Sink and Receiver documents; gitkruise.yaml "
    "when there is one. Objects of the cluster count as well.",
)
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option(
    "--hooks",
    default="127.0.0.1:9292",
    show_default=True,
    metavar="HOST:PORT",
    help="Where Receivers listen for web hooks.",
)
@click.option(
    "--webhook",
    "webhook_listen",
    default="",
    metavar="HOST:PORT",
    help="Also do what `gitkruise webhook` does, and listen there.",
)
@click.option(
    "--webhook-url",
    default="",
    metavar="https://…",
    help="Where API servers call it; else the Service gitkruise-webhook.",
)
@click.option(
    "--metrics",
    default="",
    metavar="HOST:PORT",
    help="Where Prometheus finds /metrics, and probes /healthz and /readyz; nowhere by default.",
)
@click.option(
    "--no-cross-namespace-refs/--cross-namespace-refs",
    default=True,
    show_default=True,
    help="Whether objects of the cluster may not refer to other namespaces.",
)
@click.option(
    "--default-service-account",
    default="",
    metavar="NAME",
    help="For units that are objects of the cluster and name none.",
)
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
@cluster_options
def run(
    config_path: Path | None,
    feature_gates: str,
    verbose: bool,
    cluster: ClusterChoice,
    **more: Any,
) -> None:
    """Follow git, drive the cluster, write the outcome back.

    \b
    Examples:
      gitkruise run --config gitkruise.yaml --sandbox
      gitkruise run --sandbox                             units by kubectl apply
      gitkruise run --config /etc/gitkruise --kubeconfig kube.yaml --context prod

    One line on standard error for each change of state; everything else is in the status branch.
    """
    from gitkruise.app import RunOptions  # noqa: PLC0415  imports aiohttp and git
    from gitkruise.gitops.custom.declared import Rules  # noqa: PLC0415  likewise
    from gitkruise.kube.listening import parse_listen  # noqa: PLC0415  not for --help
    from gitkruise.model.settings import parse_gates  # noqa: PLC0415  not for --help

    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    environment = read_environment()
    options = RunOptions(
        config=_config(config_path),
        cluster="",
        state_dir=environment.state_dir,
        identity=f"{platform.node()}-{os.getpid()}",
        gates=parse_gates(feature_gates),
        listen=parse_listen(more["hooks"]),
        metrics=parse_listen(more["metrics"], flag="--metrics") if more["metrics"] else None,
        webhook=_webhook(environment, feature_gates, more),
        custom=Rules(
            cross_namespace=not more["no_cross_namespace_refs"],
            default_account=more["default_service_account"],
        ),
    )
    asyncio.run(_run(options, cluster))


def _config(path: Path | None) -> Config:
    """The file that is named, or the one that is here, or none."""
    from gitkruise.gitops.config import load_config  # noqa: PLC0415  imports jsonschema
    from gitkruise.model.config import Config  # noqa: PLC0415

    here = Path("gitkruise.yaml")
    return load_config(path or here) if path is not None or here.exists() else Config()


def _webhook(
    environment: Environment, feature_gates: str, listen: Mapping[str, str]
) -> WebhookOptions | None:
    """None unless it is asked for."""
    if not listen["webhook_listen"]:
        return None
    from gitkruise.cli.webhook import HOME, SERVICE, webhook_options  # noqa: PLC0415

    return webhook_options(
        environment,
        listen=listen["webhook_listen"],
        url=listen["webhook_url"],
        namespace=HOME,
        service=SERVICE,
        feature_gates=feature_gates,
    )


async def _run(options: RunOptions, choice: ClusterChoice) -> None:
    from gitkruise.app import controller  # noqa: PLC0415  imports aiohttp and git
    from gitkruise.cli.progress import Teller  # noqa: PLC0415
    from gitkruise.cli.serving import stop_event  # noqa: PLC0415

    environment = read_environment()
    teller = Teller(Style.of_errors(environment))
    stop = stop_event()
    async with connected(choice, environment) as chosen:

        def report(record: UnitRecord) -> None:
            for line in teller.lines(record, chosen.clock.now()):
                tell(line)

        assert options.custom is not None
        rules = replace(options.custom, home=chosen.home)
        options = replace(options, cluster=chosen.name, listeners=(report,), custom=rules)
        async with controller(options, chosen.transport, chosen.clock) as running:
            objects = " and those that are objects there" if running.custom else ""
            tell(
                f"following {len(options.config.units)} units for cluster {chosen.name}{objects}, "
                f"engine {running.engine}"
            )
            if running.metrics:
                tell(f"metrics at {running.metrics}")
            for name, url in running.hooks.items():
                tell(f"receiver {name} listens at {url}")
            await stop.wait()
