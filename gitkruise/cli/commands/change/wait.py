"""gitkruise wait: wait until the status branch reports a commit as rolled out."""

from __future__ import annotations

from typing import Any

import click

from gitkruise.cli.console.command import ExitCodesCommand, output_option, timeout_option
from gitkruise.cli.context.local_repository import config_instead
from gitkruise.cli.context.resource_args import unit_ids


@click.command(
    cls=ExitCodesCommand,
    exits=(1, 4, 6),
    says="the commit was rejected, or its rollout is stuck",
)
@click.argument("unit", default="", metavar="[UNIT]", shell_complete=unit_ids)
@click.option("--commit", default="HEAD", show_default=True, metavar="SHA",
              help="Commit to wait for.")  # fmt: skip
@click.option(
    "--for",
    "goal",
    type=click.Choice(["applied", "held", "done"]),
    default="held",
    show_default=True,
    help="applied: sent to the cluster; held: rolled out up to the partition; done: on all pods.",
)
@timeout_option()
@click.option("--repo", default=".", show_default=True, help="Repository with the status branch.")
@config_instead
@click.option(
    "--cluster",
    default="",
    help="Cluster whose status branch is read; required if there are several.",
)
@output_option
@click.pass_context
def wait(ctx: click.Context, /, **flags: Any) -> None:
    """Wait until a commit is rolled out. Reads the status branch; needs no cluster access.

    \b
    Examples:
      gitkruise wait --commit 4f2c9e1
      gitkruise wait shop/web --commit HEAD --for done --timeout 10m
      gitkruise wait --cluster prod --for applied -o json

    Waits for all units, or for UNIT. A commit that does not change a unit counts as rolled out
    there immediately; a superseded commit counts when its successor does.
    """
    from gitkruise.cli.context.wait import WaitOptions, wait_for  # noqa: PLC0415  imports the model

    ctx.exit(wait_for(WaitOptions(**flags)))
