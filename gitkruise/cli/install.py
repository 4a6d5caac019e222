"""gitkruise install: CRDs, access rights and the controller, put on a cluster or printed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

import click

from gitkruise.cli.config import read_environment
from gitkruise.cli.connect import ClusterChoice, cluster_options, connected
from gitkruise.cli.output import list_of, say, say_json, tell
from gitkruise.cli.style import Style
from gitkruise.cli.verb import Verb

if TYPE_CHECKING:
    from gitkruise.gitops.install import Installed, Wishes

FIELDS_SHOWN: Final = 4


@click.command(cls=Verb, exits=(5, 6))
@click.option("--crds", "crds_only", is_flag=True, help="Only the CustomResourceDefinitions.")
@click.option("--webhooks", is_flag=True,
              help="Also admission and conversion, for clusters without OpenKruise.")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="Ask the server what would change; write nothing.")
@click.option("--export", is_flag=True, help="Print the YAML; talk to no cluster.")
@click.option("--namespace", "-n", default="gitkruise-system", show_default=True,
              help="Where the controller lives.")  # fmt: skip
@click.option("--image", default="", metavar="IMAGE", help="The controller's image.")
@click.option("--take-over", is_flag=True,
              help="Overwrite OpenKruise's CRDs, and fields that others own.")  # fmt: skip
@click.option("-o", "--output", type=click.Choice(["text", "json"]), default="text")
@cluster_options
def install(
    cluster: ClusterChoice, export: bool, output: str, namespace: str, **flags: Any
) -> None:
    """Put CRDs and the controller on a cluster.

    \b
    Examples:
      gitkruise install --crds
      gitkruise install --webhooks
      gitkruise install --dry-run --context prod
      gitkruise install --export | kubectl apply --server-side -f -

    CRDs that OpenKruise brought are left alone, and so is a configuration that is there already.
    """
    from gitkruise.gitops.install import Wishes  # noqa: PLC0415  imports the schemas

    wishes = Wishes(namespace=namespace, **flags)
    if export:
        _print(wishes)
        return
    done = asyncio.run(_install(cluster, wishes))
    style = Style.of(read_environment())
    if output == "json":
        say_json(list_of("InstallList", [installed_obj(item) for item in done]), style)
    else:
        say([line_of(item) for item in done], style)
    tell(_summary(done, wishes))


def _print(wishes: Wishes) -> None:
    """Multi-document YAML on standard output."""
    from gitkruise.gitops.install import manifest_text, manifests  # noqa: PLC0415

    click.echo(manifest_text(manifests(wishes)), nl=False, color=False)


async def _install(choice: ClusterChoice, wishes: Wishes) -> list[Installed]:
    from gitkruise.gitops.install import Installer, manifests  # noqa: PLC0415
    from gitkruise.kube.data import load_catalog  # noqa: PLC0415

    async with connected(choice, read_environment()) as chosen:
        installer = Installer(chosen.transport, load_catalog(), chosen.clock, wishes)
        return await installer.install(manifests(wishes))


def line_of(item: Installed) -> str:
    """`configured  ClusterRole gitkruise-engine: rules`."""
    shown = ", ".join(item.fields[:FIELDS_SHOWN])
    more = len(item.fields) - FIELDS_SHOWN
    told = item.why or shown + (f" and {more} more" if more > 0 else "")
    return f"{item.change:<11} {item.key}" + (f": {told}" if told else "")


def installed_obj(item: Installed) -> dict[str, Any]:
    """What became of one object, for JSON."""
    group, kind, namespace, name = item.key
    where = {"group": group, "kind": kind, "namespace": namespace, "name": name}
    said: dict[str, Any] = {"object": where, "change": str(item.change)}
    if item.fields:
        said["fields"] = list(item.fields)
    return said | ({"reason": item.why} if item.why else {})


def _summary(done: list[Installed], wishes: Wishes) -> str:
    counts: dict[str, int] = {}
    for item in done:
        counts[item.change] = counts.get(item.change, 0) + 1
    told = ", ".join(f"{count} {change}" for change, count in counts.items())
    if wishes.dry_run:
        return f"dry run, nothing was written: {told}"
    if wishes.crds_only:
        return f"{told}; next: gitkruise run --config gitkruise.yaml"
    edit = f"kubectl edit configmap gitkruise-config -n {wishes.namespace}"
    return f"{told}; next: name your repository with {edit}"
