"""gitkruise webhook: admission and conversion for a cluster without OpenKruise."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.config import Environment, read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.output import tell
from gitkruise.cli.verb import Verb
from gitkruise.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from gitkruise.webhook.service import WebhookOptions

HOME: Final = "gitkruise-system"
SERVICE: Final = "gitkruise-webhook"


@click.command(cls=Verb, exits=(5,))
@click.option("--listen", default=":9443", show_default=True, metavar="HOST:PORT",
              help="Where to listen.")  # fmt: skip
@click.option("--namespace", "-n", default=HOME, show_default=True,
              help="Of the Service and of the Secret with the certificates.")  # fmt: skip
@click.option("--service", default=SERVICE, show_default=True,
              help="The Service that API servers call.")  # fmt: skip
@click.option("--url", default="", metavar="https://…",
              help="Called here instead: outside the cluster, without a Service.")  # fmt: skip
@click.option("--feature-gates", default="", metavar="Name=true,…", help="OpenKruise's gates.")
@click.option("--withdraw", is_flag=True, help="Tell the cluster to forget it, and end.")
@click.option("-v", "--verbose", is_flag=True, help="Say more.")
@cluster_options
def webhook(cluster: ClusterChoice, verbose: bool, withdraw: bool, **words: str) -> None:
    """Inject, order, default, check and convert, as OpenKruise's webhooks do.

    \b
    Examples:
      gitkruise webhook
      gitkruise webhook --url https://10.0.0.5:9443 --context prod
      gitkruise webhook --withdraw

    Makes its certificates itself and keeps the cluster's configuration. `gitkruise install
    --webhooks` runs it inside the cluster.
    """
    level = logging.INFO if verbose else logging.WARNING
    logging.basicConfig(level=level, format="%(levelname)s %(name)s: %(message)s")
    environment = read_environment()
    options = webhook_options(environment, **words)
    asyncio.run(_withdraw(options, cluster) if withdraw else _serve(options, cluster))


def webhook_options(environment: Environment, **words: Any) -> WebhookOptions:
    """From the words of the command line. Raises UsageProblem GK7004, GK7027, GK5114."""
    from gitkruise.kube.listening import parse_listen  # noqa: PLC0415  not for --help
    from gitkruise.model.settings import parse_gates  # noqa: PLC0415
    from gitkruise.webhook.registration import Address  # noqa: PLC0415
    from gitkruise.webhook.service import WebhookOptions  # noqa: PLC0415  imports aiohttp

    url = words["url"]
    if url and not (url.startswith("https://") and url.removeprefix("https://").strip("/")):
        message = f"{url!r} is no address that an API server calls"
        notes = (("next", "write --url https://HOST:PORT"),)
        raise UsageProblem(Finding(code="GK5114", message=message, notes=notes))
    service = "" if url else words["service"]
    return WebhookOptions(
        address=Address(namespace=words["namespace"], service=service, url=url),
        listen=parse_listen(words["listen"], flag="--listen"),
        gates=parse_gates(words["feature_gates"]),
        folder=environment.state_dir / "webhook" if url else None,
    )


async def _serve(options: WebhookOptions, choice: ClusterChoice) -> None:
    from gitkruise.cli.serving import stop_event  # noqa: PLC0415
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415
    from gitkruise.webhook.service import serve_webhooks  # noqa: PLC0415

    stop = stop_event()
    async with (
        connected(choice, read_environment()) as chosen,
        serve_webhooks(options, chosen.transport, load_catalog(), chosen.clock) as serving,
    ):
        where = (
            options.address.url or f"Service {options.address.namespace}/{options.address.service}"
        )
        tell(f"webhooks for cluster {chosen.name} at {where}, port {serving.port}")
        for name in serving.written:
            tell(f"told the cluster: {name}")
        await stop.wait()


async def _withdraw(options: WebhookOptions, choice: ClusterChoice) -> None:
    from gitkruise.webhook.registration import Registrar  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        gone = await Registrar(chosen.transport, options.address).withdraw()
    for name in gone:
        tell(f"withdrawn: {name}")
    if not gone:
        tell("nothing to withdraw")
