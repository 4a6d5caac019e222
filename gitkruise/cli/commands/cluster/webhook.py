"""gitkruise webhook: serve admission and conversion for a cluster without OpenKruise."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, gates_option, log_options
from gitkruise.cli.console.environment import Environment, read_environment
from gitkruise.cli.console.log_format import announce, log_to_stderr
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.errors import Finding, UsageProblem

if TYPE_CHECKING:
    from gitkruise.webhook.service import WebhookOptions

HOME: Final = "gitkruise-system"
SERVICE: Final = "gitkruise-webhook"


@click.command(cls=ExitCodesCommand, exits=(5,), serves=True)
@click.option("--listen", default=":9443", show_default=True, metavar="HOST:PORT",
              help="Address to listen on.")  # fmt: skip
@click.option("--namespace", "-n", default=HOME, show_default=True,
              help="Namespace of the Service and of the Secret with the certificates.")  # fmt: skip
@click.option("--service", default=SERVICE, show_default=True,
              help="Service that API servers call.")  # fmt: skip
@click.option("--url", default="", metavar="https://…",
              help="URL that API servers call instead of the Service.")  # fmt: skip
@gates_option
@click.option("--withdraw", is_flag=True, help="Remove the webhook configurations and exit.")
@log_options
@cluster_options
def webhook(cluster: ClusterChoice, verbose: bool, withdraw: bool, **words: str) -> None:
    """Serve the webhooks of OpenKruise: injection, ordering, defaults, validation, conversion.

    \b
    Examples:
      gitkruise webhook
      gitkruise webhook --url https://10.0.0.5:9443 --context prod
      gitkruise webhook --withdraw

    Creates its own certificates and maintains the webhook configurations of the cluster.
    `gitkruise install --webhooks` runs it inside the cluster.
    """
    level = logging.INFO if verbose else logging.WARNING
    log_to_stderr(level)
    environment = read_environment()
    options = webhook_options(environment, **words)
    asyncio.run(_withdraw(options, cluster) if withdraw else _serve(options, cluster))


def webhook_options(environment: Environment, **words: Any) -> WebhookOptions:
    """Parse the flags of the command. Raises UsageProblem GK7004, GK7027, GK5114."""
    from gitkruise.kube.serve.addresses import parse_listen  # noqa: PLC0415  not for --help
    from gitkruise.model.workloads.feature_gates import parse_gates  # noqa: PLC0415
    from gitkruise.webhook.registration import Address  # noqa: PLC0415
    from gitkruise.webhook.service import WebhookOptions  # noqa: PLC0415  imports aiohttp

    url = words["url"]
    if url and not (url.startswith("https://") and url.removeprefix("https://").strip("/")):
        message = f"--url {url!r}: API servers call https:// URLs only"
        notes = (("next", "write --url https://HOST:PORT"),)
        raise UsageProblem(Finding(code="GK5114", message=message, notes=notes))
    service = "" if url else words["service"]
    if not url and not service:
        message = "--service is empty, and --url is not set: API servers have no address to call"
        notes = (("next", f"write --service {SERVICE}, or --url https://HOST:PORT"),)
        raise UsageProblem(Finding(code="GK5114", message=message, notes=notes))
    return WebhookOptions(
        address=Address(namespace=words["namespace"], service=service, url=url),
        listen=parse_listen(words["listen"], flag=words.get("flag", "--listen")),
        gates=parse_gates(words["feature_gates"]),
        folder=environment.state_dir / "webhook" if url else None,
    )


async def _serve(options: WebhookOptions, choice: ClusterChoice) -> None:
    from gitkruise.cli.console.signals import Startup  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415
    from gitkruise.webhook.service import serve_webhooks  # noqa: PLC0415

    async with (
        Startup() as startup,
        connected(choice, read_environment()) as chosen,
        serve_webhooks(options, chosen.transport, load_catalog(), chosen.clock) as serving,
    ):
        where = (
            options.address.url or f"Service {options.address.namespace}/{options.address.service}"
        )
        text = f"webhooks for cluster {chosen.name} at {where}, port {serving.port}"
        about = {"cluster": chosen.name, "address": where, "port": serving.port}
        announce(text, "webhooks-served", **about)
        for name in serving.written:
            announce(f"wrote {name}", "webhook-written", object=name)
        startup.over = True
        await startup.stop.wait()


async def _withdraw(options: WebhookOptions, choice: ClusterChoice) -> None:
    from gitkruise.webhook.registration import Registrar  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        gone = await Registrar(chosen.transport, options.address).withdraw()
    for name in gone:
        announce(f"removed {name}", "webhook-removed", object=name)
    if not gone:
        announce("no webhook configuration to remove", "no-webhook-to-remove")
