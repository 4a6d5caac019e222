"""gitkruise install: apply or print CRDs, access rights and the controller."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.console.command import ExitCodesCommand, output_option
from gitkruise.cli.console.environment import read_environment
from gitkruise.cli.console.output import list_of, say, say_json, say_on_stderr
from gitkruise.cli.console.style import Style
from gitkruise.cli.context.cluster import ClusterChoice, cluster_options, connected
from gitkruise.kube.system.lease_terms import SHARDS_MAX
from gitkruise.printable import listing, totals

if TYPE_CHECKING:
    from gitkruise.gitops.install.installer import Installed, InstallOptions

FIELDS_SHOWN: Final = 4
SIMULATED: Final = (
    "the embedded cluster starts no containers, so the controller does not run there; "
    "next: gitkruise run --sandbox (with --local-sources for repositories of this machine)"
)


@click.command(cls=ExitCodesCommand, exits=(5, 6))
@click.option(
    "--crds", "crds_only", is_flag=True, help="Install only the CustomResourceDefinitions."
)
@click.option("--webhooks", is_flag=True,
              help="Also install the webhooks, for clusters without OpenKruise.")  # fmt: skip
@click.option(
    "--dry-run", is_flag=True, help="Send dry runs to the API server and show the changes."
)
@click.option("--export", is_flag=True, help="Print the YAML; contact no cluster.")
@click.option("--namespace", "-n", default="gitkruise-system", show_default=True,
              help="Namespace of the controller.")  # fmt: skip
@click.option("--image", default="", metavar="IMAGE", help="Image of the controller.")
@click.option("--shards", type=click.IntRange(1, SHARDS_MAX), default=1, show_default=True,
              metavar="NUMBER", help="Spread the units over so many replicas.")  # fmt: skip
@click.option("--take-over", is_flag=True,
              help="Overwrite OpenKruise's CRDs and fields that other managers own.")  # fmt: skip
@output_option
@cluster_options
def install(
    cluster: ClusterChoice, export: bool, output: str, namespace: str, **flags: Any
) -> None:
    """Install CRDs and the controller on a cluster.

    \b
    Examples:
      gitkruise install --crds
      gitkruise install --webhooks
      gitkruise install --dry-run --context prod
      gitkruise install --export | kubectl apply --server-side -f -

    CRDs of an OpenKruise installation and an existing configuration are not changed.
    """
    from gitkruise.gitops.install.installer import InstallOptions  # noqa: PLC0415  imports the schemas

    options = InstallOptions(namespace=namespace, **flags)
    if export:
        _print(options)
        return
    done, embedded = asyncio.run(_install(cluster, options))
    style = Style.of(read_environment())
    if output == "json":
        say_json(list_of("InstallList", [installed_obj(item) for item in done]), style)
    else:
        say([line_of(item) for item in done], style)
    say_on_stderr(_summary(done, options))
    if embedded and not (options.crds_only or options.dry_run):
        say_on_stderr(SIMULATED)


def _print(options: InstallOptions) -> None:
    """Print multi-document YAML on standard output."""
    from gitkruise.gitops.install.installer import manifest_text, manifests  # noqa: PLC0415

    click.echo(manifest_text(manifests(options)), nl=False, color=False)


async def _install(choice: ClusterChoice, options: InstallOptions) -> tuple[list[Installed], bool]:
    """Install; return the results, and whether the cluster is the embedded one."""
    from gitkruise.gitops.install.installer import Installer, manifests  # noqa: PLC0415
    from gitkruise.kube.system.package_data import load_catalog  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        installer = Installer(chosen.transport, load_catalog(), chosen.clock, options)
        return await installer.install(manifests(options)), chosen.embedded


def line_of(item: Installed) -> str:
    """`configured  ClusterRole gitkruise-engine: rules`."""
    detail = item.why or listing(item.fields, FIELDS_SHOWN)
    return f"{item.change:<11} {item.key}" + (f": {detail}" if detail else "")


def installed_obj(item: Installed) -> dict[str, Any]:
    """Result of one object, for JSON."""
    out: dict[str, Any] = {"object": item.key._asdict(), "change": str(item.change)}
    if item.fields:
        out["fields"] = list(item.fields)
    return out | ({"reason": item.why} if item.why else {})


def _summary(done: list[Installed], options: InstallOptions) -> str:
    counts = totals(item.change for item in done)
    if options.dry_run:
        return f"dry run, nothing was written: {counts}"
    if options.crds_only:
        return f"{counts}; next: gitkruise run --config gitkruise.yaml"
    edit = f"kubectl edit configmap gitkruise-config -n {options.namespace}"
    return f"{counts}; next: name your repository with {edit}"
